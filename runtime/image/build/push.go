package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Push uploads the image to a registry that wants no login, such as one on this
// machine, and returns the reference to pin: host/repository@digest. The
// registry is a URL, "http://127.0.0.1:5000"; tag may be "".
func (i *Image) Push(ctx context.Context, client *http.Client, registry, repository, tag string) (ref string, err error) {
	base, err := url.Parse(registry)
	if err != nil || base.Host == "" {
		return "", fmt.Errorf("push: registry %q is not a URL", registry)
	}
	root := strings.TrimSuffix(registry, "/") + "/v2/" + repository
	for d, blob := range i.blobs {
		if err := pushBlob(ctx, client, root, d, blob); err != nil {
			return "", fmt.Errorf("push %s: %w", d, err)
		}
	}
	names := []string{i.Digest.String()}
	if tag != "" {
		names = append(names, tag)
	}
	for _, name := range names {
		if _, err := send(ctx, client, http.MethodPut, root+"/manifests/"+name, v1.MediaTypeImageManifest, i.Manifest, http.StatusCreated); err != nil {
			return "", fmt.Errorf("push manifest %s: %w", name, err)
		}
	}
	return base.Host + "/" + repository + "@" + i.Digest.String(), nil
}

func pushBlob(ctx context.Context, client *http.Client, root string, d digest.Digest, blob []byte) error {
	location, err := send(ctx, client, http.MethodPost, root+"/blobs/uploads/", "", nil, http.StatusAccepted)
	if err != nil {
		return err
	}
	if location == nil {
		return errors.New("the registry does not say where to")
	}
	query := location.Query()
	query.Set("digest", d.String())
	location.RawQuery = query.Encode()
	_, err = send(ctx, client, http.MethodPut, location.String(), "application/octet-stream", blob, http.StatusCreated)
	return err
}

// send makes a request and returns the Location of the answer, nil for none.
func send(ctx context.Context, client *http.Client, method, to, mediaType string, body []byte, want int) (*url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() // read below
	text, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != want {
		return nil, fmt.Errorf("%s %s: %s: %s", method, to, res.Status, text)
	}
	location, err := res.Location()
	if errors.Is(err, http.ErrNoLocation) {
		return nil, nil
	}
	return location, err
}
