// Sweeps over a slice of 48 MiB.
package main

func sweep(bytes []byte) (sum int) {
	for at := 0; at < len(bytes); at += 4096 {
		bytes[at]++
		sum += int(bytes[at])
	}
	return sum
}

func main() {
	bytes := make([]byte, 48<<20)
	for pass := 0; pass < 4; pass++ {
		println(sweep(bytes))
	}
}
