// Package all links every provider into a program that imports it. Its list is
// generated: a new provider is a new folder and `make generate`.
package all

//go:generate go run generate.go
