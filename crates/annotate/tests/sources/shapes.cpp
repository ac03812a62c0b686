// Each way to keep memory in C++. "named X": a call follows that names X; "refused": none can.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

static long total;
static int *global = new int[9]; // refused

static void count(const void *memory) {
    total += memory != nullptr;
}

struct Table {
    explicit Table(int n) : raw_(new double[n]) { // refused
        this->more_ = new double[n]; // named more_
        rows_.resize(n); // named rows_
        other_ = std::make_unique<char[]>(9000); // named other_
    }
    ~Table() {
        delete[] raw_;
        delete[] more_;
    }
    double *raw_;
    double *more_ = nullptr;
    int *late_ = new int(3); // refused
    std::vector<double> rows_;
    std::unique_ptr<char[]> other_;
};

template <typename T>
T *array(int n) {
    T *made = new T[n]; // named made
    std::vector<T> copies(n); // named copies
    count(copies.data());
    return made;
}

template <typename T>
T *straight(int n) {
    return new T[n]; // refused
}

namespace deep {
struct Handle {
    Handle(int *pointer) : pointer(pointer) {}
    int *pointer;
};

int run(int n) {
    int *a = new int[n]; // named a
    auto *b = new Table(n); // named b
    auto c = new (std::nothrow) int[n]; // named c
    std::unique_ptr<double[]> d(new double[n]); // named d
    auto e = std::make_shared<Table>(n); // named e
    d.reset(new double[n]); // named d
    int *f = static_cast<int *>(std::malloc(n)); // named f
    int *g = reinterpret_cast<int *>(malloc(n)); // named g
    Handle h = new int[n]; // named h
    std::uintptr_t number = (std::uintptr_t)std::malloc(n); // named number
    std::atomic<int *> atom;
    atom = new int[n]; // named atom
    std::vector<bool> bits(n); // refused
    std::vector<int> v(n), w(n, 7); // named v, named w
    std::string text(n, ' '); // named text
    v.resize(2 * n); // named v
    std::string declared(int number);
    int (*grid)[4] = new int[n][4]; // refused
    alignas(Table) char place[sizeof(Table)];
    auto *placed = new (place) Table(n);
    auto job = [&] { w.resize(3 * n); a[0] = 1; }; // named w
    auto made = [n] { return new char[n]; }; // refused
    job();
    if (int *x = new int[n]) count(x); // refused
    for (int i = 0; i < 2; i++)
        a = new int[n]; // named a
    try {
        b = new Table(n); // named b
    } catch (const std::bad_alloc &) {
        return 1;
    }
    const void *all[] = {a, b, c, d.get(), e.get(), f, g, h.pointer, atom.load(), v.data(), grid, made(), &text[0]};
    for (const void *one : all)
        count(one);
    count(reinterpret_cast<void *>(number));
    placed->~Table();
    return static_cast<int>(bits.size()) - n;
}
} // namespace deep

int main() {
    const int wrong = deep::run(5000) + (array<long>(9000) == nullptr) + (straight<char>(3) == nullptr);
    std::printf("%d %ld %d\n", wrong, total, global != nullptr);
    return wrong;
}
