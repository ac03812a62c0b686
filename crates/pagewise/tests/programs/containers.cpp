// Objects as C++ makes them, each swept; the comments mark the lines that a report must name.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

constexpr std::size_t words = 2 << 20; // 16 MiB each

template <typename Words> static void sweep(Words &array, std::size_t count) {
    for (int pass = 0; pass < 3; pass++) {
        for (std::size_t i = 0; i < count; i += 512) {
            for (std::size_t j = i; j < i + 256 && j < count; j++) {
                array[j] = array[j] + static_cast<double>(i + j + 1);
            }
        }
    }
}

int main() {
    std::vector<double> x(words);                          // line of x
    double *raw = new double[words];                       // line of raw
    auto owned = std::make_unique<double[]>(words);        // line of owned
    double *grown = static_cast<double *>(std::malloc(8)); // line of grown
    for (std::size_t size = 1 << 10; size <= words; size *= 2) {
        grown = static_cast<double *>(std::realloc(grown, size * sizeof(double))); // last line of grown
        if (grown == nullptr) {
            return 1;
        }
    }
    for (std::size_t i = 0; i < words; i++) {
        raw[i] = grown[i] = static_cast<double>(i);
    }
    sweep(x, words);
    sweep(raw, words);
    sweep(owned, words);
    sweep(grown, words);
    std::printf("%f\n", x[1] + raw[1] + owned[1] + grown[1]);
    delete[] raw;
    std::free(grown);
    return 0;
}
