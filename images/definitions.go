package main

// definition is one image: which files of the cache or the machine go where.
// {arch} stands for the platform's architecture.
type definition struct {
	name       string
	platforms  []string
	user       string
	entrypoint []string
	cmd        []string
	env        []string
	trees      []string // folders of the cache, taken whole
	files      []file
	links      map[string]string // path in the image -> what it points at
}

// file copies one file of the cache; libs adds the shared libraries it is linked with.
type file struct {
	from, to string
	libs     bool
}

func definitions() []definition {
	return []definition{
		{
			name: "probe", platforms: []string{"linux/amd64", "linux/arm64"},
			// The pod asks for root where a socket needs it; the image itself does not.
			user: "65532:65532", entrypoint: []string{"/probe"},
			files: []file{{from: "build/linux-{arch}/probe", to: "/probe"}},
		},
		{
			// The client, with the embedded probe and who signs certificates of the world, for a
			// cluster that runs it.
			name: "client", platforms: []string{"linux/amd64", "linux/arm64"}, user: "65532:65532",
			entrypoint: []string{"/calico-probe"},
			env:        []string{"USER=calico-probe"}, // who is written on what it creates; there is no passwd
			files:      []file{{from: "build/linux-{arch}/calico-probe", to: "/calico-probe"}},
		},
		{
			// A shell and tools for nodes that have none; its pod asks for root. The packages
			// are in toolbox.packages.
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
			// A probe that lies, for the tests; the real one stands beside it.
			name: "liar", platforms: []string{"linux/{host}"}, user: "65532:65532", entrypoint: []string{"/liar"},
			files: []file{{from: "build/liar", to: "/liar"}, {from: "build/linux-{arch}/probe", to: "/honest"}},
		},
		{
			name: "coredns", platforms: []string{"linux/{host}"}, entrypoint: []string{"/coredns"},
			files: []file{{from: "bin/coredns", to: "/coredns"}},
		},
		{
			// Calico's image cannot be had without a registry: this has the real BIRD
			// of Debian and a stand-in for the rest, at Calico's paths.
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
