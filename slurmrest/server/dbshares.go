package server

import (
	"math"
	"slices"
	"strings"

	"github.com/sbatchd/sbatchd/partitions/tres"
	"github.com/sbatchd/sbatchd/sbatchd/assoc"
	"github.com/sbatchd/sbatchd/sbatchd/job"
	"github.com/sbatchd/sbatchd/sbatchd/store"
	"github.com/sbatchd/sbatchd/slurmrest/wire"
)

// getShares answers GET /shares: the tree of associations with its fair shares.
func getShares(c *call) {
	q := c.r.URL.Query()
	r := c.records()
	used, err := c.usage(r)
	if err != nil {
		c.refuse(err, "slurm_associations_get_shares() failed", "slurm_associations_get_shares")
		return
	}
	cluster := r.s.Config.ClusterName
	list := r.Shares(cluster, func(a *assoc.Assoc) float64 { return used[a.ID] })
	accounts, users := words(q, "accounts"), words(q, "users")
	private := c.hides("usage")
	msg := wire.SharesRespMsg{}
	for _, s := range list {
		a := s.Assoc
		msg.TotalShares += int64(a.Shares)
		if len(accounts) > 0 && !slices.Contains(accounts, a.Account) || len(users) > 0 && a.User != "" && !slices.Contains(users, a.User) ||
			private && a.User != "" && a.User != c.who.User {
			continue
		}
		msg.Shares = append(msg.Shares, r.share(s))
	}
	c.reply(func(b []byte) []byte {
		return append(c.record(append(b, `"shares":`...), "shares_resp_msg", &msg), ',')
	})
}

func (r *records) share(s assoc.Share) wire.AssocSharesObjWrap {
	a := s.Assoc
	f := func(v float64) wire.NumFloat { return wire.NumFloat{Set: true, Number: v} }
	w := wire.AssocSharesObjWrap{
		ID: int64(a.ID), Cluster: a.Cluster, Name: a.Account, Partition: a.Partition, Type: []string{"ASSOCIATION"},
		Shares: wire.N(a.Shares), SharesNormalized: f(s.Norm), Usage: int64(s.Usage), UsageNormalized: f(s.NormUsage), EffectiveUsage: f(s.Effective),
	}
	if p, ok := r.Assoc(a.Parent); ok {
		w.Parent = p.Account
	} else {
		w.Shares, w.UsageNormalized = wire.Num{}, wire.NumFloat{}
	}
	if a.User != "" {
		w.Name, w.Type = a.User, []string{"USER"}
		w.Fairshare.Factor = f(s.Factor)
	}
	switch {
	case a.Parent == 0:
	case math.IsInf(s.Level, 1):
		w.Fairshare.Level = wire.NumFloat{Infinite: true}
	default:
		w.Fairshare.Level = f(s.Level)
	}
	for t := range r.AllTRES() {
		name := t.String()
		limit := wire.Infinite
		if v, ok := a.GrpTRESMins[name]; ok {
			limit = wire.N(v)
		}
		w.TRES.GroupMinutes = append(w.TRES.GroupMinutes, wire.SharesUint64TRES{Name: name, Value: limit})
		w.TRES.RunSeconds = append(w.TRES.RunSeconds, wire.SharesUint64TRES{Name: name, Value: wire.N(0)})
		w.TRES.Usage = append(w.TRES.Usage, wire.SharesFloat128TRES{Name: name})
	}
	return w
}

// usage is what each association's jobs used, in decayed billing seconds. As in
// Slurm nothing counts while neither fair-share nor limits ask for it.
func (c *call) usage(r *records) (map[assoc.ID]float64, error) {
	cfg := r.s.Config
	if cfg.Priority.WeightFairshare == 0 && !slices.ContainsFunc(cfg.AccountingStorage.Enforce, func(e string) bool {
		return strings.EqualFold(e, "limits") || strings.EqualFold(e, "safe") || strings.EqualFold(e, "all")
	}) {
		return nil, nil
	}
	now := c.s.cfg.Now()
	const counted = 20 // half-lives after which usage is less than a millionth
	query := store.JobQuery{States: []job.State{job.Running}}
	if h := cfg.Priority.DecayHalfLife; h > 0 {
		query.Since = now.Add(-counted * h)
	}
	list, err := c.s.cfg.Controller.Records(c.r.Context(), query)
	if err != nil {
		return nil, err
	}
	used := map[assoc.ID]float64{}
	for _, rec := range list {
		for _, run := range rec.Runs {
			a, ok := r.Find(cfg.ClusterName, rec.Job.Account, rec.Job.User, run.Partition)
			if !ok || run.Alloc.IsZero() {
				continue
			}
			end := run.Ended
			if end.IsZero() {
				end = now
			}
			used[a.ID] += assoc.Decayed(run.Alloc, end, now, cfg.Priority.DecayHalfLife) * float64(allocated(run)[tres.Billing])
		}
	}
	return used, nil
}
