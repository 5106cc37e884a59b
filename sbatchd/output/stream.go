package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbatchd/sbatchd/runtime/atomicfile"
)

func (s *Spool) path(k Key) string { return filepath.Join(s.dir, k.String()) }

// open finds a stream and opens its file for writing.
func (s *Spool) open(key Key) (st *stream, isNew bool, err error) {
	s.mu.Lock()
	newest, known := s.newest[key.Job]
	if known && key.Restart < newest {
		s.mu.Unlock()
		return nil, false, fmt.Errorf("append to %s: attempt %d is the present one: %w", key, newest, ErrOld)
	}
	s.newest[key.Job] = key.Restart
	s.mu.Unlock()
	if st, err = s.stream(key); err != nil {
		return nil, false, err
	}
	st.used = s.clock
	if st.file != nil {
		return st, false, nil
	}
	_, statErr := os.Lstat(s.path(key))
	isNew = errors.Is(statErr, fs.ErrNotExist)
	f, err := os.OpenFile(s.path(key), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("append to %s: %w", key, err)
	}
	s.mu.Lock()
	st.file = f
	s.mu.Unlock()
	if st.ack.Capped {
		return st, isNew, s.mendNotice(st)
	}
	return st, isNew, nil
}

// mendNotice completes a notice that a crash cut off.
func (s *Spool) mendNotice(st *stream) error {
	if err := st.file.Truncate(st.cutAt); err != nil {
		return err
	}
	end := st.cutAt
	if err := s.sayLimit(st, &end); err != nil {
		return err
	}
	if err := st.file.Sync(); err != nil {
		return err
	}
	s.settle(st, end, st.ack, nil)
	return nil
}

// stream finds a stream in memory, or learns from the disk what it has.
func (s *Spool) stream(key Key) (*stream, error) {
	s.mu.Lock()
	st := s.streams[key]
	s.mu.Unlock()
	if st != nil {
		return st, nil
	}
	st = &stream{key: key, change: make(chan struct{})}
	f, err := os.Open(s.path(key))
	switch {
	case err == nil:
		// What a killed controller wrote may not be on the disk yet.
		err = f.Sync()
		if info, serr := f.Stat(); err == nil && serr == nil {
			st.size = info.Size()
		} else {
			err = errors.Join(err, serr)
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("spool %s: %w", key, err)
	}
	st.ack.Size = st.size
	var m limitMark
	data, err := os.ReadFile(s.path(key) + ".limit")
	if err == nil && json.Unmarshal(data, &m) == nil && st.size >= m.Size {
		st.ack, st.cutAt = Ack{Size: m.Size, Capped: true}, m.Size
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.streams[key]; other != nil {
		return other, nil
	}
	s.streams[key] = st
	return st, nil
}

func (s *Spool) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st.file != nil {
			_ = st.file.Close() // all of it is synced
			st.file = nil
		}
	}
}

// closeIdle keeps the numbers of open files and of streams in memory bounded.
func (s *Spool) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) > maxStreams {
		for k, st := range s.streams {
			if st.file == nil && st.used+maxStreams < s.clock {
				delete(s.streams, k) // the disk knows it
			}
		}
	}
	var open []*stream
	for _, st := range s.streams {
		if st.file != nil {
			open = append(open, st)
		}
	}
	if len(open) <= maxOpen {
		return
	}
	slices.SortFunc(open, func(a, b *stream) int { return int(int64(a.used) - int64(b.used)) })
	for _, st := range open[:len(open)-maxOpen/2] {
		_ = st.file.Close() // all of it is synced
		st.file = nil
	}
}

// Forget drops what is in memory of a job; its files stay. For jobs that ended.
func (s *Spool) Forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, st := range s.streams {
		if k.Job == id && st.file == nil {
			delete(s.streams, k)
		}
	}
}

// Remove deletes all output of a job.
func (s *Spool) Remove(id uint32) error {
	s.Forget(id)
	list, err := filepath.Glob(filepath.Join(s.dir, strconv.FormatUint(uint64(id), 10)+".*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range list {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Keys lists the streams of a job, by attempt and name.
func (s *Spool) Keys(id uint32) ([]Key, error) {
	prefix := strconv.FormatUint(uint64(id), 10) + "."
	list, err := filepath.Glob(filepath.Join(s.dir, prefix+"*"))
	if err != nil {
		return nil, err
	}
	var keys []Key
	for _, name := range list {
		if k, ok := parseKey(filepath.Base(name)); ok && k.Job == id {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		if a.Restart != b.Restart {
			return int(int64(a.Restart) - int64(b.Restart))
		}
		return strings.Compare(a.Stream, b.Stream)
	})
	return keys, nil
}

// writeSynced replaces a small file in one step.
func writeSynced(name string, data []byte) error {
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err == nil {
		err = atomicfile.Sync(filepath.Dir(name))
	}
	return err
}
