package main

import (
	"testing"
)

func TestReadOutput(t *testing.T) {
	t.Parallel()
	const (
		one   = "epoch 1 loss 1.10 accuracy 0.3\n"
		two   = "epoch 2 loss 1.00 accuracy 0.4\n"
		three = "epoch 3 loss 0.90 accuracy 0.5\n"
		done  = "done: 3 epochs, loss 0.90, accuracy 0.5\n"
	)
	tests := []struct {
		name, text string
		resumedAt  int
		bad        bool
	}{
		{name: "in one go", text: one + two + three + done},
		{name: "resumed", text: one + two + "saved epoch 2 on USR1\n" + "resumed at epoch 2 (restart 1)\n" + three + done, resumedAt: 2},
		{name: "resumed from an older checkpoint", text: one + two + "resumed at epoch 1 (restart 1)\n" + two + three + done, resumedAt: 1},
		{name: "started over", text: one + two + one + two + three + done, bad: true},
		{name: "line lost", text: one + three + done, bad: true},
		{name: "line doubled", text: one + two + two + three + done, bad: true},
		{name: "output lost before the reclaim", text: one + "resumed at epoch 2 (restart 1)\n" + three + done, bad: true},
		{name: "another loss", text: one + two + "resumed at epoch 1 (restart 1)\nepoch 2 loss 0.95 accuracy 0.4\n" + three + done, bad: true},
		{name: "not done", text: one + two, bad: true},
		{name: "torn", text: one + "epoch 2 lo", bad: true},
		{name: "stranger", text: one + "hello\n" + two + three + done, bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := readOutput(tt.text)
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want one: %v", err, tt.bad)
			}
			if err == nil && got.resumedAt != tt.resumedAt {
				t.Errorf("resumed at %d, want %d", got.resumedAt, tt.resumedAt)
			}
		})
	}
}
