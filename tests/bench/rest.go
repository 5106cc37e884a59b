package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// endpoint is a Slurm REST server and who asks it.
type endpoint struct {
	url     string // http://host:port
	version string // v0.0.NN
	user    string
	token   string
	dir     string // work directory of the submitted jobs
}

// body is one job that waits: held, so that nobody runs it.
func (e endpoint) body() ([]byte, error) {
	return json.Marshal(map[string]any{"job": map[string]any{
		"name":                      "bench",
		"script":                    "#!/bin/sh\n#SBATCH --comment=an ordinary little script\ncd data && ./train --epochs 10 --rate 0.001\n",
		"current_working_directory": e.dir,
		"environment":               []string{"PATH=/usr/bin:/bin", "HOME=" + e.dir, "LANG=C.UTF-8"},
		"hold":                      true,
		"time_limit":                map[string]any{"set": true, "number": 60},
	}})
}

// submit has so many clients submit one job after the other, for a time or until
// so many were taken (0: no such limit). It returns how many were acknowledged.
func (e endpoint) submit(ctx context.Context, clients int, during time.Duration, limit int64) (int64, time.Duration, error) {
	body, err := e.body()
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: clients, MaxConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var started, taken atomic.Int64
	var failed atomic.Pointer[error]
	var wait sync.WaitGroup
	begin := time.Now()
	for range clients {
		wait.Go(func() {
			for ctx.Err() == nil && (limit == 0 || started.Add(1) <= limit) {
				switch err := e.post(ctx, client, body); {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					return
				default:
					failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	wait.Wait()
	took := time.Since(begin)
	if err := failed.Load(); err != nil {
		return taken.Load(), took, *err
	}
	return taken.Load(), took, nil
}

// post submits one job.
func (e endpoint) post(ctx context.Context, client *http.Client, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/slurm/"+e.version+"/job/submit", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-SLURM-USER-NAME", e.user)
	req.Header.Set("X-SLURM-USER-TOKEN", e.token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var got struct {
		JobID  int64 `json:"job_id"`
		Errors []struct {
			Error string `json:"error"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(answer, &got); err != nil || got.JobID == 0 {
		return fmt.Errorf("%s: %.300s", resp.Status, answer)
	}
	return nil
}
