package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gorilla/mux"

	"github.com/sbatchd/sbatchd/slurmrest/auth"
	"github.com/sbatchd/sbatchd/slurmrest/errno"
	"github.com/sbatchd/sbatchd/slurmrest/version"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
	"github.com/sbatchd/sbatchd/slurmrest/wire/spec"
)

// endpoint is one operation of Slurm's API. Paths have no trailing slash.
type endpoint struct {
	method, path string
	handle       func(*call)
	since        int // the first version that has it, v0.0.N; 0: every one
}

const (
	get    = http.MethodGet
	post   = http.MethodPost
	remove = http.MethodDelete
)

// slurm are the operations below /slurm/V; the ones asked most come first.
var slurm = []endpoint{
	{post, "/job/submit", submitJob, 0},
	{get, "/jobs", getJobs, 0},
	{get, "/jobs/state", getJobsState, 0},
	{get, "/job/{job_id}", getJob, 0},
	{post, "/job/{job_id}", postJob, 0},
	{remove, "/job/{job_id}", deleteJob, 0},
	{remove, "/jobs", deleteJobs, 0},
	{post, "/jobs/requeue", requeueJobs, 45},
	{get, "/job/{job_id}/requeue", requeueJob, 45},
	{post, "/job/allocate", allocateJob, 41},
	{get, "/nodes", getNodes, 0},
	{post, "/nodes", postNodes, 42},
	{get, "/node/{node_name}", getNode, 0},
	{post, "/node/{node_name}", postNode, 0},
	{remove, "/node/{node_name}", deleteNode, 0},
	{post, "/new/node", createNode, 44},
	{get, "/partitions", getPartitions, 0},
	{post, "/partitions", postPartitions, 45},
	{get, "/partition/{partition_name}", getPartition, 0},
	{remove, "/partition/{partition_name}", deletePartition, 45},
	{get, "/reservations", getReservations, 0},
	{post, "/reservations", postReservations, 43},
	{post, "/reservation", postReservation, 43},
	{get, "/reservation/{reservation_name}", getReservation, 0},
	{remove, "/reservation/{reservation_name}", deleteReservation, 43},
	{get, "/resources/{job_id}", getResources, 44},
	{get, "/conf", getConf, 45},
	{get, "/ping", getPing, 0},
	{get, "/diag", getDiag, 0},
	{get, "/licenses", getLicenses, 0},
	{get, "/reconfigure", getReconfigure, 0},
	{get, "/shares", getShares, 0},
}

// slurmdb are the operations below /slurmdb/V.
var slurmdb = []endpoint{
	{get, "/jobs", getDBJobs, 0},
	{post, "/jobs", postJobModify, 44},
	{get, "/job/{job_id}", getDBJob, 0},
	{post, "/job/{job_id}", postJobModify, 44},
	{get, "/ping", getDBPing, 42},
	{get, "/diag", getDBDiag, 0},
	{get, "/conf", getDBConf, 45},
	{get, "/config", getDBConfig, 0},
	{post, "/config", postDBConfig, 0},
	{get, "/tres", getTRES, 0},
	{post, "/tres", postTRES, 0},
	{get, "/instance", getInstances, 0},
	{get, "/instances", getInstances, 0},
	{get, "/accounts", getAccounts, 0},
	{post, "/accounts", postAccounts, 0},
	{post, "/accounts_association", postAccountsAssociation, 0},
	{get, "/account/{account_name}", getAccount, 0},
	{remove, "/account/{account_name}", deleteAccount, 0},
	{get, "/association", getAssociation, 0},
	{remove, "/association", deleteAssociation, 0},
	{get, "/associations", getAssociations, 0},
	{post, "/associations", postAssociations, 0},
	{remove, "/associations", deleteAssociations, 0},
	{get, "/users", getUsers, 0},
	{post, "/users", postUsers, 0},
	{post, "/users_association", postUsersAssociation, 0},
	{get, "/user/{name}", getUser, 0},
	{remove, "/user/{name}", deleteUser, 0},
	{get, "/qos", getQOSes, 0},
	{post, "/qos", postQOS, 0},
	{get, "/qos/{qos}", getQOS, 0},
	{remove, "/qos/{qos}", deleteQOS, 0},
	{get, "/clusters", getClusters, 0},
	{post, "/clusters", postClusters, 0},
	{get, "/cluster/{cluster_name}", getCluster, 0},
	{remove, "/cluster/{cluster_name}", deleteCluster, 0},
	{get, "/wckeys", getWCKeys, 0},
	{post, "/wckeys", postWCKeys, 0},
	{get, "/wckey/{id}", getWCKey, 0},
	{remove, "/wckey/{id}", deleteWCKey, 0},
}

// burst are the operations below /sbatchd/v1, one for each word of sburst.
var burst = []endpoint{
	{get, "/pools", getPools, 0},
	{get, "/offers", getOffers, 0},
	{get, "/leaks", getLeaks, 0},
	{get, "/logs/{job_id}", getLogs, 0},
	{get, "/bill/{job_id}", getBill, 0},
	{get, "/checkpoints/{job_id}", getCheckpoints, 0},
	{get, "/explain/{job_id}", getExplain, 0},
	{get, "/script/{job_id}", getScript, 0},
	{post, "/job/{job_id}", postJob, 0}, // tasks of an array too, which Slurm's own can't
	{post, "/reclaim/{node_name}", postReclaim, 0},
	{post, "/token", postToken, 0},
	{get, "/config", getConfig, 0},
	{post, "/partition", postPartition, 0},
	{get, "/steps", getSteps, 0},
	{post, "/accounting", postAccounting, 0},
	{get, "/transactions", getTransactions, 0},
}

func (s *Server) routes() http.Handler {
	r := mux.NewRouter().SkipClean(true)
	for _, v := range version.Served() {
		s.mount(r, "/slurm/"+v.Name, slurm, v, ofSlurm)
		s.mount(r, "/slurmdb/"+v.Name, slurmdb, v, ofSlurmdb)
	}
	s.mount(r, "/sbatchd/v1", burst, version.Served()[0], ofSbatchd)
	r.HandleFunc("/healthz", s.healthz).Methods(http.MethodGet)
	r.HandleFunc("/metrics", s.metrics).Methods(http.MethodGet)
	s.openAPI = sync.OnceValues(s.document)
	for _, path := range []string{"/openapi/v3", "/openapi", "/openapi.json", "/openapi.yaml"} {
		r.HandleFunc(path, s.identified(serveOpenAPI, serveOpenAPI, version.Served()[0], ofSlurm)).Methods(http.MethodGet)
	}
	nothing := func(c *call) { text(c.w, errno.RESTUnknownURL) }
	unknown := s.identified(nothing, nothing, version.Served()[0], ofSlurm)
	r.NotFoundHandler = unknown
	r.MethodNotAllowedHandler = unknown
	return trimmed(r)
}

func (s *Server) mount(r *mux.Router, prefix string, list []endpoint, v *version.Version, a api) {
	sub := r.PathPrefix(prefix).Subrouter()
	for _, e := range list {
		if !v.Since(e.since) {
			continue
		}
		sub.HandleFunc(e.path, s.identified(e.handle, denied(e, a), v, a)).Methods(e.method)
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

// api tells apart whose operation one is.
type api uint8

const (
	ofSlurm api = iota
	ofSlurmdb
	ofSbatchd // always JSON
)

// identified finds out who asks before anything else is looked at.
// refuse answers where a token is no good; nil: as to one that brings none.
func (s *Server) identified(handle, refuse func(*call), v *version.Version, a api) http.HandlerFunc {
	db, own := a == ofSlurmdb, a == ofSbatchd
	return func(w http.ResponseWriter, r *http.Request) {
		s.served.requests.Add(1)
		answer := handle
		who, err := s.auth.Load().Identify(r)
		if err != nil {
			s.served.refused.Add(1)
			s.cfg.Log.Debug("identity refused", "err", err, "remote", r.RemoteAddr)
			if refuse == nil || !errors.Is(err, auth.ErrToken) {
				text(w, errno.RESTAuthFail)
				return
			}
			answer = refuse
		}
		c := &call{s: s, w: w, r: r, v: v, db: db, own: own, who: who, sparse: v.Newest() && wantsSparse(r), mime: "application/json"}
		if !own {
			var e errno.Errno
			if c.mime, c.yaml, e = accepted(r.Header); e != errno.Success {
				text(w, e)
				return
			}
		}
		answer(c)
	}
}

// document builds the OpenAPI document of what is served.
func (s *Server) document() ([]byte, error) {
	served := map[string]bool{}
	for _, v := range version.Served() {
		for prefix, list := range map[string][]endpoint{"/slurm/": slurm, "/slurmdb/": slurmdb} {
			for _, e := range list {
				if !v.Since(e.since) {
					continue
				}
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
	if c.yaml {
		doc = wire.AppendYAML(nil, doc)
	}
	c.w.Write(doc) //nolint:errcheck // the client is gone
}
