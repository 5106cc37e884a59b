// Package build makes small OCI images without a daemon: from files, as a
// layout in a tar file, or pushed to a registry. The demo and the tests use it
// to have an image with a digest to pin; it is no image builder for users.
//
// The same files and configuration give the same digest, on any machine.
package build

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// File is one entry of the image's single layer. Parent folders that are not
// listed are made with mode 0755.
type File struct {
	Path   string // in the image, such as "bin/sh"
	Data   []byte // of a regular file
	Link   string // target of a symbolic link; "" for a file or, with fs.ModeDir, a folder
	Mode   fs.FileMode
	Source string // file on this machine to take instead of Data
}

// Config is the part of the image's configuration that a job sees.
type Config struct {
	Env        []string
	Cmd        []string
	WorkingDir string
	Labels     map[string]string
	Arch       string // "" for this machine's
}

// Image is a built image.
type Image struct {
	Digest   digest.Digest // of the manifest: what to pin
	Manifest []byte
	blobs    map[digest.Digest][]byte // config and layer
}

// Build makes an image.
func Build(files []File, cfg Config) (*Image, error) {
	layer, err := layerTar(files)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(layer); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	image := v1.Image{
		Platform: v1.Platform{Architecture: cmp.Or(cfg.Arch, runtime.GOARCH), OS: "linux"},
		Config:   v1.ImageConfig{Env: cfg.Env, Cmd: cfg.Cmd, WorkingDir: cfg.WorkingDir, Labels: cfg.Labels},
		RootFS:   v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer)}},
	}
	config, err := json.Marshal(image)
	if err != nil {
		return nil, err
	}
	img := &Image{blobs: map[digest.Digest][]byte{}}
	add := func(mediaType string, blob []byte) v1.Descriptor {
		d := digest.FromBytes(blob)
		img.blobs[d] = blob
		return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(blob))}
	}
	manifest := v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageManifest,
		Config:    add(v1.MediaTypeImageConfig, config),
		Layers:    []v1.Descriptor{add(v1.MediaTypeImageLayerGzip, packed.Bytes())},
	}
	if img.Manifest, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	img.Digest = digest.FromBytes(img.Manifest)
	return img, nil
}

// epoch is the time of every file, so that digests repeat.
var epoch = time.Unix(0, 0).UTC()

func layerTar(files []File) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	sorted := slices.Clone(files)
	for i := range sorted {
		sorted[i].Path = strings.TrimPrefix(path.Clean("/"+sorted[i].Path), "/")
	}
	slices.SortStableFunc(sorted, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for _, f := range sorted {
		if err := parents(w, path.Dir(f.Path), made); err != nil {
			return nil, err
		}
		if err := writeFile(w, f, made); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.Path, err)
		}
	}
	return out.Bytes(), w.Close()
}

func parents(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := parents(w, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: epoch})
}

func writeFile(w *tar.Writer, f File, made map[string]bool) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: tarMode(f.Mode), ModTime: epoch}
	switch {
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
		return w.WriteHeader(h)
	case f.Mode.IsDir():
		if made[f.Path] {
			return errors.New("listed after its contents, or twice")
		}
		made[f.Path] = true
		h.Typeflag, h.Name = tar.TypeDir, f.Path+"/"
		return w.WriteHeader(h)
	}
	data := f.Data
	if f.Source != "" {
		var err error
		if data, err = os.ReadFile(f.Source); err != nil {
			return err
		}
	}
	h.Size = int64(len(data))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func tarMode(m fs.FileMode) int64 {
	mode := int64(m.Perm())
	if m&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	if m&fs.ModeSetuid != 0 {
		mode |= 0o4000
	}
	return mode
}

// Busybox lists the files of an image that holds the busybox of this machine
// (Debian's busybox-static), a link for each of its programs, and /tmp.
func Busybox(program string, applets []string) []File {
	files := []File{
		{Path: "bin/busybox", Source: program, Mode: 0o755},
		{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Path: "etc/passwd", Data: []byte("root:x:0:0:root:/root:/bin/sh\n"), Mode: 0o644},
		{Path: "etc/group", Data: []byte("root:x:0:\n"), Mode: 0o644},
		{Path: "root", Mode: fs.ModeDir | 0o700},
	}
	for _, name := range applets {
		if name != "busybox" && !strings.Contains(name, "/") && name != "" {
			files = append(files, File{Path: "bin/" + name, Link: "busybox"})
		}
	}
	return files
}

// Tree lists the files below a folder of this machine, to be put below at.
func Tree(dir, at string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := File{Path: path.Join(at, filepath.ToSlash(rel)), Mode: info.Mode()}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			f.Link, err = os.Readlink(name)
		case info.Mode().IsRegular():
			f.Source = name
		case !info.IsDir():
			return nil // sockets and devices have no place in an image
		}
		files = append(files, f)
		return err
	})
	return files, err
}

// WriteTar writes the image as an OCI layout in a tar file, tagged with name,
// as `ctr images import` takes it.
func (i *Image) WriteTar(out io.Writer, name string) error {
	w := tar.NewWriter(out)
	add := func(file string, data []byte) error {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644, Size: int64(len(data)), ModTime: epoch}); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	layout, err := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return err
	}
	index, err := json.Marshal(v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: v1.MediaTypeImageManifest, Digest: i.Digest, Size: int64(len(i.Manifest)),
			Annotations: map[string]string{"io.containerd.image.name": name, v1.AnnotationRefName: name},
		}},
	})
	if err != nil {
		return err
	}
	if err := add(v1.ImageLayoutFile, layout); err != nil {
		return err
	}
	if err := add(v1.ImageIndexFile, index); err != nil {
		return err
	}
	blobs := map[digest.Digest][]byte{i.Digest: i.Manifest}
	maps.Copy(blobs, i.blobs)
	for _, d := range slices.Sorted(maps.Keys(blobs)) {
		if err := add(path.Join("blobs", d.Algorithm().String(), d.Encoded()), blobs[d]); err != nil {
			return err
		}
	}
	return w.Close()
}
