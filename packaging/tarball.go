package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// tarball writes the files, in the order of their names, below one directory. Owners
// are root and all times are the commit's.
func tarball(w io.Writer, base string, items []item, at time.Time) error {
	compressor, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressor)
	packed := slices.DeleteFunc(slices.Clone(items), func(i item) bool { return i.tar == "" })
	slices.SortFunc(packed, func(a, b item) int { return strings.Compare(a.tar, b.tar) })
	for _, i := range packed {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(base, i.tar), Mode: int64(i.mode), Size: int64(len(i.content)),
			ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(i.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressor.Close()
}
