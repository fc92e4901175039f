package main

// definition is one image, with its files from the cache or this machine. {arch} is the platform's architecture.
type definition struct {
	name       string
	platforms  []string
	user       string
	entrypoint []string
	cmd        []string
	env        []string
	trees      []string // folders of the cache, copied whole
	files      []file
	links      map[string]string // path in the image -> link target
}

// file copies one file of the cache; libs adds its shared libraries.
type file struct {
	from, to string
	libs     bool
}

func definitions() []definition {
	return []definition{
		{
			name: "probe", platforms: []string{"linux/amd64", "linux/arm64"},
			// The pod requests root if a socket needs it. The image does not.
			user: "65532:65532", entrypoint: []string{"/probe"},
			files: []file{{from: "build/linux-{arch}/probe", to: "/probe"}},
		},
		{
			// The client with the embedded probe and public CAs, for running in a cluster.
			name: "client", platforms: []string{"linux/amd64", "linux/arm64"}, user: "65532:65532",
			entrypoint: []string{"/calico-probe"},
			env:        []string{"USER=calico-probe"}, // the creator in annotations; the image has no passwd file
			files:      []file{{from: "build/linux-{arch}/calico-probe", to: "/calico-probe"}},
		},
		{
			// A shell and tools for nodes without them. The pod requests root. toolbox.packages lists the packages.
			name: "toolbox", platforms: []string{"linux/amd64", "linux/arm64"}, entrypoint: []string{"/probe"},
			trees: []string{"toolbox/{arch}"},
			files: []file{{from: "build/linux-{arch}/probe", to: "/probe"}},
		},
		{
			name: "pause", platforms: []string{"linux/{host}"}, user: "65535:65535", entrypoint: []string{"/pause"},
			files: []file{{from: "build/workload", to: "/pause"}},
		},
		{
			name: "workload", platforms: []string{"linux/{host}"}, user: "65532:65532", entrypoint: []string{"/workload"},
			files: []file{{from: "build/workload", to: "/workload"}},
		},
		{
			// A probe that lies, for tests, beside the real probe.
			name: "liar", platforms: []string{"linux/{host}"}, user: "65532:65532", entrypoint: []string{"/liar"},
			files: []file{{from: "build/liar", to: "/liar"}, {from: "build/linux-{arch}/probe", to: "/honest"}},
		},
		{
			name: "coredns", platforms: []string{"linux/{host}"}, entrypoint: []string{"/coredns"},
			files: []file{{from: "bin/coredns", to: "/coredns"}},
		},
		{
			// A stand-in for Calico's image, which would need a registry. It has Debian's real BIRD, and stubs for the other
			// programs, at Calico's paths.
			name: "calico-node", platforms: []string{"linux/{host}"}, cmd: []string{"/bin/calico-node"},
			env: []string{"PATH=/bin:/usr/sbin:/usr/bin"},
			files: []file{
				{from: "build/calico-node", to: "/bin/calico-node"},
				{from: "bird/usr/sbin/bird", to: "/usr/sbin/bird", libs: true},
				{from: "bird/usr/sbin/bird6", to: "/usr/sbin/bird6", libs: true},
			},
			links: map[string]string{"/opt/cni/bin/calico-ipam": "/bin/calico-node", "/opt/cni/bin/install": "/bin/calico-node"},
		},
	}
}
