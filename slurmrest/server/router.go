package server

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/version"
	"github.com/sbatchd/sbatchd/slurmrest/wire/spec"
)

// endpoint is one operation of Slurm's API. Paths have no trailing slash.
type endpoint struct {
	method, path string
	handle       func(*call)
}

// slurm are the operations below /slurm/V; the ones asked most come first.
var slurm = []endpoint{
	{http.MethodPost, "/job/submit", submitJob},
	{http.MethodGet, "/jobs", getJobs},
	{http.MethodGet, "/jobs/state", getJobsState},
	{http.MethodGet, "/job/{job_id}", getJob},
	{http.MethodPost, "/job/{job_id}", postJob},
	{http.MethodDelete, "/job/{job_id}", deleteJob},
	{http.MethodDelete, "/jobs", deleteJobs},
	{http.MethodPost, "/jobs/requeue", requeueJobs},
	{http.MethodGet, "/job/{job_id}/requeue", requeueJob},
	{http.MethodGet, "/nodes", getNodes},
	{http.MethodGet, "/node/{node_name}", getNode},
	{http.MethodPost, "/node/{node_name}", postNode},
	{http.MethodGet, "/partitions", getPartitions},
	{http.MethodGet, "/partition/{partition_name}", getPartition},
	{http.MethodGet, "/ping", getPing},
	{http.MethodGet, "/diag", getDiag},
	{http.MethodGet, "/licenses", getLicenses},
	{http.MethodGet, "/reconfigure", getReconfigure},
}

// slurmdb are the operations below /slurmdb/V.
var slurmdb = []endpoint{
	{http.MethodGet, "/jobs", getDBJobs},
	{http.MethodGet, "/job/{job_id}", getDBJob},
	{http.MethodGet, "/ping", getDBPing},
}

// burst are the operations below /sbatchd/v1, one for each word of sburst.
var burst = []endpoint{
	{http.MethodGet, "/pools", getPools},
	{http.MethodGet, "/offers", getOffers},
	{http.MethodGet, "/leaks", getLeaks},
	{http.MethodGet, "/logs/{job_id}", getLogs},
	{http.MethodGet, "/bill/{job_id}", getBill},
	{http.MethodGet, "/checkpoints/{job_id}", getCheckpoints},
	{http.MethodGet, "/explain/{job_id}", getExplain},
	{http.MethodGet, "/script/{job_id}", getScript},
	{http.MethodPost, "/reclaim/{node_name}", postReclaim},
	{http.MethodPost, "/token", postToken},
	{http.MethodGet, "/config", getConfig},
}

func (s *Server) routes() http.Handler {
	r := mux.NewRouter().SkipClean(true)
	for _, v := range version.Served() {
		s.mount(r, "/slurm/"+v.Name, slurm, v, false)
		s.mount(r, "/slurmdb/"+v.Name, slurmdb, v, true)
	}
	s.mount(r, "/sbatchd/v1", burst, version.Served()[0], false)
	r.HandleFunc("/healthz", s.healthz).Methods(http.MethodGet)
	r.HandleFunc("/metrics", s.metrics).Methods(http.MethodGet)
	s.openAPI = sync.OnceValues(s.document)
	for _, path := range []string{"/openapi/v3", "/openapi", "/openapi.json"} {
		r.HandleFunc(path, s.identified(serveOpenAPI, version.Served()[0], false)).Methods(http.MethodGet)
	}
	unknown := s.identified(func(c *call) { text(c.w, errno.RESTUnknownURL) }, version.Served()[0], false)
	r.NotFoundHandler = unknown
	r.MethodNotAllowedHandler = unknown
	return trimmed(r)
}

func (s *Server) mount(r *mux.Router, prefix string, list []endpoint, v *version.Version, db bool) {
	sub := r.PathPrefix(prefix).Subrouter()
	for _, e := range list {
		sub.HandleFunc(e.path, s.identified(e.handle, v, db)).Methods(e.method)
	}
}

// trimmed drops slashes that say nothing, as Slurm does: it never redirects,
// since a POST would become a GET.
func trimmed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.ContainsAny(r.RequestURI, `<>"{}|\^`+"`") {
			text(w, errno.URLInvalidPath)
			return
		}
		p := r.URL.Path
		if len(p) > 1 && p[len(p)-1] == '/' || strings.Contains(p, "//") {
			parts := slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" })
			u := *r.URL
			u.Path, u.RawPath = "/"+strings.Join(parts, "/"), ""
			r2 := *r
			r2.URL = &u
			r = &r2
		}
		next.ServeHTTP(w, r)
	})
}

// identified finds out who asks before anything else is looked at.
func (s *Server) identified(handle func(*call), v *version.Version, db bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.served.requests.Add(1)
		who, err := s.auth.Load().Identify(r)
		if err != nil {
			s.served.refused.Add(1)
			s.cfg.Log.Debug("identity refused", "err", err, "remote", r.RemoteAddr)
			text(w, errno.RESTAuthFail)
			return
		}
		if !acceptsJSON(r.Header) {
			text(w, errno.HTTPUnknownAcceptMimeType)
			return
		}
		handle(&call{s: s, w: w, r: r, v: v, db: db, who: who, sparse: v.Newest() && wantsSparse(r)})
	}
}

// contentType says whether a body of that type can be read. Slurm answers a
// body without a type with an unspecified error; a form is no description.
func contentType(t string) errno.Errno {
	t, _, _ = strings.Cut(t, ";")
	switch strings.ToLower(strings.TrimSpace(t)) {
	case "application/json", "application/jsonrequest":
		return errno.Success
	case "":
		return errno.Unspecified
	}
	return errno.DataUnknownMimeType
}

// acceptsJSON reports whether the client takes JSON.
func acceptsJSON(h http.Header) bool {
	accept := h.Values("Accept")
	if len(accept) == 0 {
		return true
	}
	for _, line := range accept {
		for one := range strings.SplitSeq(line, ",") {
			one, _, _ = strings.Cut(one, ";")
			switch strings.ToLower(strings.TrimSpace(one)) {
			case "", "*/*", "application/*", "application/json", "application/jsonrequest", "text/plain", "text/*":
				return true
			}
		}
	}
	return false
}

// document builds the OpenAPI document of what is served.
func (s *Server) document() ([]byte, error) {
	served := map[string]bool{}
	for _, v := range version.Served() {
		for prefix, list := range map[string][]endpoint{"/slurm/": slurm, "/slurmdb/": slurmdb} {
			for _, e := range list {
				served[e.method+" "+prefix+v.Name+e.path] = true
			}
		}
	}
	return spec.OpenAPI("sbatchd", s.cfg.Release, func(method, path string) bool {
		return served[method+" "+strings.TrimSuffix(path, "/")]
	})
}

func serveOpenAPI(c *call) {
	doc, err := c.s.openAPI()
	if err != nil {
		c.fail(err, "", "")
		c.reply(nil)
		return
	}
	c.header(http.StatusOK)
	c.w.Write(doc) //nolint:errcheck // the client is gone
}
