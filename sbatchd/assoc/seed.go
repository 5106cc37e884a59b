package assoc

import "slices"

// Seed adds what a fresh Slurm has: the cluster with its root account and root
// user, the QOS normal, and the TRES that are tracked. What is there stays.
func (d *Draft) Seed(cluster string, tracked []string) error {
	if len(d.qos) == 0 && d.last[string(KindQOS)] == 0 {
		d.setQOS(&QOS{ID: d.next(KindQOS), Name: "normal", Description: "Normal QOS default", UsageFactor: 1})
	}
	d.seedTRES(tracked)
	if _, ok := d.clusters[cluster]; ok {
		return nil
	}
	if _, ok := d.accounts[Root]; !ok {
		d.setAccount(&Account{Name: Root, Description: "default root account", Organization: Root})
	}
	if _, ok := d.users[Root]; !ok {
		d.setUser(&User{Name: Root, Level: LevelAdmin})
	}
	if err := d.newCluster(cluster, Settings{}); err != nil {
		return err
	}
	top, _ := d.At(Place{Cluster: cluster, Account: Root}) // just made
	return d.addAssoc(&Assoc{
		ID: d.next(KindAssoc), Cluster: cluster, Account: Root, User: Root, Parent: top.ID, Shares: 1, Default: true,
	}, Settings{})
}

// seedTRES numbers the TRES that have no number yet.
func (d *Draft) seedTRES(tracked []string) {
	for i, name := range staticTRES {
		if d.TRESID(name) == 0 {
			d.setTRES(newTRES(ID(i+1), name))
		}
	}
	for _, name := range tracked {
		if d.TRESID(name) != 0 || slices.Contains(staticTRES, name) {
			continue
		}
		if d.last[string(KindTRES)] < firstTRES-1 {
			d.last[string(KindTRES)] = firstTRES - 1
		}
		d.setTRES(newTRES(d.next(KindTRES), name))
	}
}

func newTRES(id ID, name string) *TRES {
	t := &TRES{ID: id, Type: name}
	for i := range name {
		if name[i] == '/' {
			t.Type, t.Name = name[:i], name[i+1:]
			break
		}
	}
	return t
}
