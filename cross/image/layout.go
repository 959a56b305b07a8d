package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// image collects the blobs of an image.
type image struct {
	name, version, revision string
	created                 time.Time

	blobs     map[string][]byte // by digest, in hexadecimal
	manifests []descriptor      // of the architectures
}

// descriptor names a blob (OCI Image Format, "Content Descriptors").
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// manifest is an image manifest, or with Manifests an index.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// config is an image configuration.
type config struct {
	Created string `json:"created"`
	platform
	Config struct {
		User       string              `json:"User"`
		Env        []string            `json:"Env"`
		Entrypoint []string            `json:"Entrypoint"`
		Cmd        []string            `json:"Cmd"`
		WorkingDir string              `json:"WorkingDir"`
		Volumes    map[string]struct{} `json:"Volumes"`
		Labels     map[string]string   `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []history `json:"history"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// user is who the program runs as. The number is above those of distributions, so that it
// meets nobody where host and container share users.
const user = 65532

// layer is a compressed layer and the digest of what it holds.
type layer struct {
	descriptor
	diff string
	what string // for the history
}

// entry is a file or, without data, a folder.
type entry struct {
	name  string
	data  []byte
	mode  int64
	owner int
}

// common makes the layer that all architectures have: the user, folders and further files.
func (im *image) common(files []pair) (layer, error) {
	entries := []entry{
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/nonexistent\n"+
			"hencedge:x:%d:%d:hencedge:/var/lib/hencedge:/nonexistent\n", user, user)},
		{name: "etc/group", data: fmt.Appendf(nil, "root:x:0:\nhencedge:x:%d:\n", user), mode: 0o644},
		{name: "etc/hencedge/", mode: 0o755},
		{name: "tmp/", mode: 0o1777},
		{name: "var/lib/hencedge/", mode: 0o700, owner: user},
	}
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return layer{}, err
		}
		entries = append(entries, entry{name: strings.TrimPrefix(f.name, "/"), data: data, mode: 0o644})
	}
	return im.layer("user, folders and licences", entries)
}

// add adds the image for one architecture.
func (im *image) add(arch, program string, common layer) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := static(data, arch); err != nil {
		return err
	}
	own, err := im.layer("hencedge "+im.version, []entry{{name: "usr/bin/hencedge", data: data, mode: 0o755}})
	if err != nil {
		return err
	}
	c := config{Created: im.created.Format(time.RFC3339), platform: platform{arch, "linux"}}
	c.Config.User = fmt.Sprintf("%d:%d", user, user)
	c.Config.Env = []string{"PATH=/usr/bin", "HOME=/var/lib/hencedge"}
	c.Config.Entrypoint, c.Config.Cmd = []string{"/usr/bin/hencedge"}, []string{"--help"}
	c.Config.WorkingDir = "/var/lib/hencedge"
	c.Config.Volumes = map[string]struct{}{"/var/lib/hencedge": {}}
	c.Config.Labels = im.labels()
	c.RootFS.Type = "layers"
	m := manifest{SchemaVersion: 2, MediaType: manifestType, Annotations: im.labels()}
	for _, l := range []layer{common, own} {
		m.Layers = append(m.Layers, l.descriptor)
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, l.diff)
		c.History = append(c.History, history{c.Created, l.what})
	}
	at, err := im.document(configType, c)
	if err != nil {
		return err
	}
	m.Config = &at
	if at, err = im.document(manifestType, m); err != nil {
		return err
	}
	at.Platform = &platform{arch, "linux"}
	im.manifests = append(im.manifests, at)
	return nil
}

// static refuses a program that could not run: of another architecture, or one that needs a
// dynamic linker, which the image does not have.
func static(program []byte, arch string) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("not a program for Linux: %w", err)
	}
	want, ok := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if !ok || f.Machine != want {
		return fmt.Errorf("a program for %s, and the architecture is %q (amd64 or arm64)", f.Machine, arch)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("it needs a dynamic linker; take the static program")
	}
	return nil
}

// labels are the annotations of the OCI Image Format that fit.
func (im *image) labels() map[string]string {
	l := map[string]string{
		"org.opencontainers.image.title":       im.name,
		"org.opencontainers.image.description": "compute on sensor data that stays encrypted",
		"org.opencontainers.image.version":     im.version,
		"org.opencontainers.image.created":     im.created.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/hencedge/hencedge",
	}
	if im.revision != "" {
		l["org.opencontainers.image.revision"] = im.revision
	}
	return l
}

// layer packs entries, with the folders above them, sorted by name.
func (im *image) layer(what string, entries []entry) (l layer, err error) {
	all := map[string]entry{}
	for _, e := range entries {
		for dir := path.Dir(path.Clean(e.name)); dir != "."; dir = path.Dir(dir) {
			if _, known := all[dir+"/"]; !known {
				all[dir+"/"] = entry{name: dir + "/", mode: 0o755}
			}
		}
	}
	for _, e := range entries {
		all[e.name] = e
	}
	var packed bytes.Buffer
	sum := sha256.New()
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return l, err
	}
	to := tar.NewWriter(io.MultiWriter(zip, sum))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := im.put(to, all[name]); err != nil {
			return l, err
		}
	}
	if err := errors.Join(to.Close(), zip.Close()); err != nil {
		return l, err
	}
	return layer{im.blob(layerType, packed.Bytes()), "sha256:" + hex.EncodeToString(sum.Sum(nil)), what}, nil
}

// put writes an entry to an archive.
func (im *image) put(to *tar.Writer, e entry) error {
	h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, ModTime: im.created,
		Size: int64(len(e.data)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
	if strings.HasSuffix(e.name, "/") {
		h.Typeflag = tar.TypeDir
	}
	if err := to.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	_, err := to.Write(e.data)
	return err
}

// blob keeps data and describes it.
func (im *image) blob(kind string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	if im.blobs == nil {
		im.blobs = map[string][]byte{}
	}
	im.blobs[digest] = data
	return descriptor{MediaType: kind, Digest: "sha256:" + digest, Size: len(data)}
}

func (im *image) document(kind string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return im.blob(kind, data), nil
}

// write writes the archive: the index of the architectures, under the name and version of the
// image, and all blobs.
func (im *image) write(file string) error {
	index, err := im.document(indexType, manifest{SchemaVersion: 2, MediaType: indexType, Manifests: im.manifests,
		Annotations: im.labels()})
	if err != nil {
		return err
	}
	tag := strings.TrimPrefix(im.version, "v")
	index.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          "localhost/" + im.name + ":" + tag,
	}
	top, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: indexType, Manifests: []descriptor{index}})
	if err != nil {
		return err
	}
	entries := []entry{
		{name: "oci-layout", data: []byte(`{"imageLayoutVersion":"1.0.0"}`), mode: 0o644},
		{name: "index.json", data: top, mode: 0o644},
		{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755},
	}
	for _, digest := range slices.Sorted(maps.Keys(im.blobs)) {
		entries = append(entries, entry{name: "blobs/sha256/" + digest, data: im.blobs[digest], mode: 0o644})
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	to := tar.NewWriter(f)
	for _, e := range entries {
		if err = im.put(to, e); err != nil {
			break
		}
	}
	return errors.Join(err, to.Close(), f.Close())
}
