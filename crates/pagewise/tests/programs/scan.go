// Reads a file from begin to end, in pieces of 64 KiB, once the file `go` is there.
package main

import (
	"io"
	"os"
	"time"
)

func scan(name string) (sum int) {
	file, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	piece := make([]byte, 64<<10)
	for {
		bytes, err := file.Read(piece)
		for at := 0; at < bytes; at += 4096 {
			sum += int(piece[at])
		}
		if err == io.EOF {
			return sum
		}
	}
}

func main() {
	for len(os.Args) > 2 {
		if _, err := os.Stat(os.Args[2]); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	println(scan(os.Args[1]))
}
