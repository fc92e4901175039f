module github.com/calico-probe/calico-probe

go 1.26

require github.com/cyphar/filepath-securejoin v0.7.0 // indirect
