package site

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sbatchd/sbatchd/tests/differential/session"
)

// server is a REST server with a token for each user.
type server struct {
	url   string
	token func(ctx context.Context, user string) (string, error)

	mu     sync.Mutex // protects the field below
	tokens map[string]string
}

func (s *server) tokenOf(ctx context.Context, user string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tokens[user]; ok {
		return t, nil
	}
	t, err := s.token(ctx, user)
	if err != nil {
		return "", err
	}
	if s.tokens == nil {
		s.tokens = map[string]string{}
	}
	s.tokens[user] = t
	return t, nil
}

// ask sends one request. Redirects are answers, not followed.
func (s *server) ask(ctx context.Context, user, method, path, body string) (session.Answer, error) {
	token, err := s.tokenOf(ctx, user)
	if err != nil {
		return session.Answer{}, err
	}
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, in)
	if err != nil {
		return session.Answer{}, err
	}
	req.Header.Set("X-SLURM-USER-NAME", user)
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{
		Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return session.Answer{Stderr: fmt.Sprintf("no answer: %v", err), Code: -1}, nil //nolint:nilerr // that is the answer
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return session.Answer{Stderr: fmt.Sprintf("half an answer: %v", err), Code: -1}, nil //nolint:nilerr // that is the answer
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return session.Answer{Stdout: string(text), Code: resp.StatusCode, Type: kind}, nil
}
