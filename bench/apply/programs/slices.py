"""An array of 128 MiB gone through in slices, beside a small one."""
import numpy

array = numpy.random.default_rng(1).random((128 << 20) // 8)
small = numpy.zeros((16 << 20) // 8)
total = 0.0
for _ in range(12):
    for start in range(0, len(array), 65536):
        total += float((array[start : start + 65536] * 1.5).sum())
        at = start * 7 % len(small)
        small[at : at + 512] += total
print(total)
