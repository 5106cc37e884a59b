package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// partSize is how much of a large object one request carries, in bytes: it
// bounds the memory of an upload. S3 takes 10,000 parts an object, so very
// large objects get larger parts.
const partSize = 16 << 20

// S3Config says where an S3 store is. Keys come from the environment
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) or from a file.
type S3Config struct {
	Endpoint  string // host:port
	Plain     bool   // http instead of https
	Region    string
	Bucket    string
	Prefix    string // without slashes at its ends, may be empty
	PathStyle bool   // bucket in the path, not in the host name
}

// Credentials are the keys of an S3 store. They are never printed.
type Credentials struct{ AccessKey, SecretKey, SessionToken string }

// String hides the keys from logs.
func (Credentials) String() string { return "[hidden]" }

// GoString hides the keys from logs.
func (Credentials) GoString() string { return "[hidden]" }

func parseS3(u *url.URL) (S3Config, error) {
	c := S3Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), PathStyle: true, Endpoint: "s3.amazonaws.com"}
	if c.Bucket == "" {
		return c, errors.New("no bucket")
	}
	for key, values := range u.Query() {
		v := values[len(values)-1]
		switch key {
		case "endpoint":
			e, err := url.Parse(v)
			if err != nil || e.Host == "" || (e.Scheme != "http" && e.Scheme != "https") || strings.Trim(e.Path, "/") != "" {
				return c, fmt.Errorf("endpoint %q: want https://host[:port]", v)
			}
			c.Endpoint, c.Plain = e.Host, e.Scheme == "http"
		case "region":
			c.Region = v
		case "path_style":
			on, err := strconv.ParseBool(v)
			if err != nil {
				return c, fmt.Errorf("path_style=%q: want 0 or 1", v)
			}
			c.PathStyle = on
		default:
			return c, fmt.Errorf("unknown setting %q", key)
		}
	}
	if !u.Query().Has("endpoint") {
		c.PathStyle = u.Query().Get("path_style") == "1"
	}
	return c, nil
}

// EnvCredentials reads the AWS variables through getenv.
func EnvCredentials(getenv func(string) string) (Credentials, error) {
	c := Credentials{getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN")}
	if c.AccessKey == "" || c.SecretKey == "" {
		return c, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
	}
	return c, nil
}

// FileCredentials reads name=value lines (the AWS variables' names, or the
// lower-case names of an AWS credentials file). The file must be closed to
// group and others.
func FileCredentials(file string) (Credentials, error) {
	st, err := os.Stat(file)
	if err != nil {
		return Credentials{}, err
	}
	if st.Mode().Perm()&0o077 != 0 {
		return Credentials{}, fmt.Errorf("%s: mode %04o lets others read it, want 0600", file, st.Mode().Perm())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Credentials{}, err
	}
	set := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			set[strings.ToUpper(strings.TrimSpace(k))] = strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	c, err := EnvCredentials(func(k string) string { return set[k] })
	if err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// S3 is a Store in a bucket. The bucket must exist.
type S3 struct {
	cfg    S3Config
	client *minio.Client
}

// NewS3 reaches a bucket through rt, which carries the dialer (a proxy, a
// namespace); nil is the usual transport. It makes no request.
func NewS3(cfg S3Config, c Credentials, rt http.RoundTripper) (*S3, error) {
	lookup := minio.BucketLookupDNS
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(cfg.Endpoint, &minio.Options{
		Creds:        credentials.NewStaticV4(c.AccessKey, c.SecretKey, c.SessionToken),
		Secure:       !cfg.Plain,
		Region:       cfg.Region,
		BucketLookup: lookup,
		Transport:    rt,
		MaxRetries:   3,
	})
	if err != nil {
		return nil, fmt.Errorf("s3 %s: %w", cfg.Endpoint, err)
	}
	return &S3{cfg: cfg, client: client}, nil
}

func (s *S3) name(key string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return s.under(key), nil
}

func (s *S3) under(key string) string {
	if s.cfg.Prefix == "" {
		return key
	}
	return s.cfg.Prefix + "/" + key
}

// Put implements Store.
func (s *S3) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	return s.put(ctx, key, r, size, minio.PutObjectOptions{})
}

// Create implements Store with If-None-Match. A server that doesn't know it is
// asked first and read back afterwards, which leaves a window of one request.
func (s *S3) Create(ctx context.Context, key string, data []byte) error {
	opts := minio.PutObjectOptions{}
	opts.SetMatchETagExcept("*")
	err := s.put(ctx, key, bytes.NewReader(data), int64(len(data)), opts)
	var r minio.ErrorResponse
	if !errors.As(err, &r) {
		return err
	}
	switch {
	case r.StatusCode == http.StatusPreconditionFailed, r.StatusCode == http.StatusConflict:
		return fmt.Errorf("%s: %w", key, ErrExists)
	case r.StatusCode != http.StatusNotImplemented:
		return err
	}
	if _, err := s.Stat(ctx, key); err == nil {
		return fmt.Errorf("%s: %w", key, ErrExists)
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if err := s.Put(ctx, key, bytes.NewReader(data), int64(len(data))); err != nil {
		return err
	}
	back, err := readAll(ctx, s, key, int64(len(data))+1)
	if err != nil {
		return err
	}
	if !bytes.Equal(back, data) {
		return fmt.Errorf("%s: %w", key, ErrExists)
	}
	return nil
}

func (s *S3) put(ctx context.Context, key string, r io.Reader, size int64, opts minio.PutObjectOptions) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	opts.ContentType = "application/octet-stream"
	opts.PartSize = max(partSize, uint64(size)/9000)
	opts.DisableMultipart = size <= partSize
	if _, err := s.client.PutObject(ctx, s.cfg.Bucket, name, r, size, opts); err != nil {
		return s.failed("put", key, err)
	}
	return nil
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	name, err := s.name(key)
	if err != nil {
		return nil, err
	}
	core := minio.Core{Client: s.client}
	body, _, _, err := core.GetObject(ctx, s.cfg.Bucket, name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.failed("get", key, err)
	}
	return body, nil
}

// Stat implements Store.
func (s *S3) Stat(ctx context.Context, key string) (Object, error) {
	name, err := s.name(key)
	if err != nil {
		return Object{}, err
	}
	st, err := s.client.StatObject(ctx, s.cfg.Bucket, name, minio.StatObjectOptions{})
	if err != nil {
		return Object{}, s.failed("stat", key, err)
	}
	return Object{Key: key, Size: st.Size, Modified: st.LastModified}, nil
}

// List implements Store.
func (s *S3) List(ctx context.Context, prefix string) ([]Object, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the client's goroutine when we leave early
	var list []Object
	for o := range s.client.ListObjects(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: s.under(prefix), Recursive: true}) {
		if o.Err != nil {
			return nil, s.failed("list", prefix, o.Err)
		}
		if strings.HasSuffix(o.Key, "/") {
			continue // a folder that some servers show
		}
		key := strings.TrimPrefix(o.Key, s.under(""))
		list = append(list, Object{Key: key, Size: o.Size, Modified: o.LastModified})
	}
	return list, nil
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, key string) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	err = s.client.RemoveObject(ctx, s.cfg.Bucket, name, minio.RemoveObjectOptions{})
	if err != nil && !errors.Is(s.failed("", key, err), ErrNotFound) {
		return s.failed("delete", key, err)
	}
	return nil
}

func (s *S3) failed(what, key string, err error) error {
	var r minio.ErrorResponse
	if errors.As(err, &r) && (r.Code == minio.NoSuchKey || (r.StatusCode == http.StatusNotFound && r.Code != minio.NoSuchBucket)) {
		return fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return fmt.Errorf("s3 %s %s: %w", what, key, err)
}

// readAll reads an object of at most limit bytes.
func readAll(ctx context.Context, s Store, key string, limit int64) ([]byte, error) {
	r, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close() // read side
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: larger than %d bytes", key, limit)
	}
	return data, nil
}
