// Package arch_test checks the rules of the house that a compiler does not: who
// may import whom, what each program may link, what lies where, who reads a
// clock. layers_test.go holds the rules as tables; a new package gets its line
// there with the review that adds it.
package arch_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/sbatchd/sbatchd"
	root   = "../.."
)

// pkg is what go list says of one package.
type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
	CgoFiles   []string
	Standard   bool
	Module     *struct{ Path string }
	Error      *struct{ Err string }
}

// rel is the package's path inside the module.
func (p pkg) rel() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// ours lists the packages of this module, read once.
var ours = sync.OnceValues(func() ([]pkg, error) { return list("./...") })

// list runs go list. Test files are not in it: they may import what they test
// with.
func list(args ...string) ([]pkg, error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Imports,Deps,CgoFiles,Standard,Module,Error"}, args...)...)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); err == io.EOF {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
}

func mustOurs(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) == 0 {
		t.Fatal("go list found no package")
	}
	return pkgs
}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	for _, p := range mustOurs(t) {
		from, ok := house(p.rel())
		if !ok {
			t.Errorf("%s is not in the layout: give it a line in layers_test.go", p.rel())
			continue
		}
		for _, path := range p.Imports {
			imported, ok := strings.CutPrefix(path, module+"/")
			if !ok {
				if layers[from] == 0 && strings.Contains(strings.SplitN(path, "/", 2)[0], ".") {
					t.Errorf("%s is layer 0 and imports %s: the standard library only", p.rel(), path)
				}
				continue
			}
			to, ok := house(imported)
			switch {
			case !ok: // reported above
			case from == to:
			case layers[from] == 1 && layers[to] == 1:
			case layers[to] < layers[from] && layers[to] < 5:
			default:
				t.Errorf("%s (layer %d) imports %s (layer %d)", p.rel(), layers[from], imported, layers[to])
			}
		}
	}
}

func TestControllerIsNotImported(t *testing.T) {
	t.Parallel()
	for _, p := range mustOurs(t) {
		if !under(p.rel(), []string{"partitions", "cloudburst", "runtime"}) {
			continue
		}
		for _, path := range p.Imports {
			if under(path, []string{module + "/sbatchd", module + "/slurmrest/server", module + "/slurmrest/cli"}) {
				t.Errorf("%s imports the controller: %s", p.rel(), path)
			}
		}
	}
}

func TestCommandsSeeOnlyREST(t *testing.T) {
	t.Parallel()
	for _, p := range mustOurs(t) {
		if !under(p.rel(), []string{"slurmrest/cli"}) {
			continue
		}
		for _, path := range p.Imports {
			if imported, ok := strings.CutPrefix(path, module+"/"); ok && !under(imported, append(cliMayImport, "slurmrest/cli")) {
				t.Errorf("%s imports %s", p.rel(), imported)
			}
		}
	}
}

func TestVendorSDKsStayInTheirProvider(t *testing.T) {
	t.Parallel()
	for _, p := range mustOurs(t) {
		for _, path := range p.Imports {
			if under(path, vendors) && !under(p.rel(), []string{"cloudburst/provider"}) {
				t.Errorf("%s imports %s", p.rel(), path)
			}
		}
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		main     string
		cgo      bool
		mustNot  []string
		ourTrees []string // nothing of ours beneath these
	}{
		{main: "sbatchd"},
		{
			main: "runtime/node", mustNot: append([]string{"database/sql", "modernc.org/"}, vendors...),
			ourTrees: []string{"sbatchd", "cloudburst", "slurmrest/server", "slurmrest/cli"},
		},
		{main: "runtime/nvml", cgo: true, mustNot: vendors, ourTrees: []string{"sbatchd", "cloudburst", "slurmrest"}},
		{
			main: "slurmrest/slurm", mustNot: append(heavy, vendors...),
			ourTrees: []string{"sbatchd", "cloudburst", "runtime", "slurmrest/server"},
		},
	}
	pkgs := mustOurs(t)
	cgo := map[string]bool{}
	for _, p := range pkgs {
		cgo[p.ImportPath] = len(p.CgoFiles) > 0
	}
	for _, tt := range tests {
		t.Run(tt.main, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(pkgs, func(p pkg) bool { return p.rel() == tt.main })
			if i < 0 {
				t.Fatalf("no main in %s", tt.main)
			}
			for _, dep := range pkgs[i].Deps {
				if under(dep, tt.mustNot) && dep != "database/sql/driver" { // interfaces that google/uuid names
					t.Errorf("%s links %s", tt.main, dep)
				}
				if imported, ok := strings.CutPrefix(dep, module+"/"); ok && under(imported, tt.ourTrees) {
					t.Errorf("%s links our %s", tt.main, imported)
				}
				if cgo[dep] && !tt.cgo {
					t.Errorf("%s links %s, which needs cgo", tt.main, dep)
				}
			}
		})
	}
}

func TestLayout(t *testing.T) {
	t.Parallel()
	atTop := []string{
		"sbatchd", "slurmrest", "partitions", "cloudburst", "runtime", "contrib", "tests",
		"README.md", "INSTALL.md", "CHANGELOG.md", "Makefile", "go.mod", "go.sum", "LICENSE", ".ci", ".golangci.yml", ".gitignore",
	}
	for _, name := range tracked(t) {
		top, _, _ := strings.Cut(name, "/")
		if !slices.Contains(atTop, top) {
			t.Errorf("%s does not belong at the top", top)
		}
	}
	if files, err := filepath.Glob(root + "/runtime/*.go"); err != nil || len(files) > 0 {
		t.Errorf("Go files directly in runtime/: %v (%v)", files, err)
	}
	for _, p := range mustOurs(t) {
		base := p.rel()[strings.LastIndexByte(p.rel(), '/')+1:]
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "manager", "types", "models"}, base) {
			t.Errorf("%s: the name says nothing", p.rel())
		}
	}
}

// tracked lists the files git knows, relative to the top; outside a git tree
// it lists nothing.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Logf("git ls-files: %v: the names at the top were not looked at", err)
		return nil
	}
	return strings.Fields(string(out))
}

func TestSources(t *testing.T) {
	t.Parallel()
	commented := map[string]bool{}
	for path, file := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(path))
		commented[dir] = commented[dir] || file.Doc != nil
		if under(dir, pure) && !strings.HasSuffix(path, "_test.go") {
			if at := readsClock(file); at.IsValid() {
				t.Errorf("%s reads the clock: time comes into this package as an argument", path)
			}
		}
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// sources parses every Go file of the module that nobody generated.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (strings.HasPrefix(name, ".") && path != root || name == "bin" || name == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			files[filepath.ToSlash(rel)] = file
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// readsClock returns where a file calls time.Now, time.Since or time.Until.
func readsClock(file *ast.File) token.Pos {
	at := token.NoPos
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name) {
			at = sel.Pos()
		}
		return true
	})
	return at
}
