// Command staticnode prepares the agent of a static node on a test's controller:
// the state folder of `sbatchd-node agent --state DIR`, with a certificate of the
// controller's own authority. It is for tests, on the controller's machine.
package main

import (
	"crypto/x509"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbatchd/sbatchd/runtime/agentapi"
)

func main() {
	c := agentapi.Config{Link: "dial", Runtime: "process", Workdir: "shared"}
	dir := flag.String("state", "", "the agent's folder")
	authority := flag.String("authority", "", "the controller's StateSaveLocation/ca")
	flag.StringVar(&c.Node, "node", "", "name of the node")
	flag.StringVar(&c.Controller, "controller", "", "AgentListen, tcp:host:port")
	flag.IntVar(&c.CPUs, "cpus", 0, "CPUs it says it has")
	flag.Int64Var(&c.MemoryMiB, "memory", 0, "MiB it says it has")
	flag.Parse()
	if err := write(*dir, *authority, c); err != nil {
		fmt.Fprintln(os.Stderr, "staticnode:", err)
		os.Exit(1)
	}
}

// write makes the folder: agent.json, a key and its certificate.
func write(dir, authority string, c agentapi.Config) error {
	now := time.Now()
	ca, err := agentapi.OpenAuthority(authority, "", now)
	if err != nil {
		return err
	}
	cert, err := x509.ParseCertificate(ca.CAs()[0])
	if err != nil {
		return err
	}
	c.Cluster = strings.TrimPrefix(cert.Subject.CommonName, "sbatchd ")
	c.Tag, c.CASHA256 = c.Node, ca.SHA256()
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	if err := agentapi.SaveConfig(filepath.Join(dir, "agent.json"), c); err != nil {
		return err
	}
	key, err := agentapi.NewKey()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "node")
	if err := agentapi.SaveKey(path, key); err != nil {
		return err
	}
	csr, err := agentapi.NewRequest(key, c.Node)
	if err != nil {
		return err
	}
	der, err := ca.Issue(agentapi.Identity{Cluster: c.Cluster, Node: c.Node, Tag: c.Tag}, csr, now)
	if err != nil {
		return err
	}
	return agentapi.SaveReply(path, &agentapi.JoinReply{Certificate: der, Cas: ca.CAs()})
}
