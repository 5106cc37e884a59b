package containerd_test

import (
	"context"

	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/sbatchd/sbatchd/runtime/container/containerd/containerdtest"
)

func containerdNamespace(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, containerdtest.Namespace)
}
