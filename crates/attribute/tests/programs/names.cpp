// Allocations of a C++ program; "name:" comments say what each is called ("-" for no name).
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "names_library.h"

static volatile std::size_t n = 70000;

__attribute__((noinline)) void keep(void *pointer)
{
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

static std::vector<double> at_start(70000, 1.0); // name: at_start

struct Buffer {
    explicit Buffer(std::size_t size)
        : data_(new double[size]), // name: data_
          cells_(size, 1) // name: cells_|initial_
    {
        this->extra_ = new char[size]; // name: extra_
        keep(extra_);
        rows_.resize(size); // name: rows_
        keep(data_);
    }
    void fill(std::size_t size)
    {
        list_.reserve(size); // name: list_
        keep(list_.data());
    }
    double *data_;
    char *extra_;
    std::vector<int> cells_;
    std::vector<int> rows_;
    std::vector<int> list_;
    std::vector<int> initial_ = std::vector<int>(70000, 3); // name-clang: initial_
};

struct Node {
    char payload[70000];
};

template <typename T>
__attribute__((noinline)) T *make_array(std::size_t size)
{
    return new T[size];
}

__attribute__((noinline)) static std::vector<double> make_vector(std::size_t size)
{
    std::vector<double> made(size, 0.5);
    keep(made.data());
    return made;
}

static void pointers()
{
    int *a = new int[n]; // name: a
    keep(a);
    auto *b = new Node(); // name: b
    keep(b);
    auto c = std::make_unique<double[]>(n); // name: c
    keep(c.get());
    std::unique_ptr<char[]> d(new char[n]); // name: d
    keep(d.get());
    auto e = std::make_shared<Node>(); // name: e
    keep(e.get());
    d.reset(new char[n]); // name: d
    keep(d.get());
    char *f = static_cast<char *>(std::malloc(n)); // name: f
    keep(f);
    double *g = make_array<double>(n); // name: g
    keep(g);
}

static void containers()
{
    std::vector<double> h(n); // name: h
    keep(h.data());
    std::vector<double> i(h); // name: i
    keep(i.data());
    std::vector<double> j = h; // name: j
    keep(j.data());
    std::vector<double> k;
    k.resize(n); // name: k
    keep(k.data());
    std::vector<int> l;
    for (std::size_t index = 0; index < n; index++)
        l.push_back(static_cast<int>(index)); // name: l
    keep(l.data());
    std::string m(n, 'x'); // name: m
    keep(&m[0]);
    std::string o;
    o += m; // name: o
    keep(&o[0]);
    std::vector<double> p;
    p = h; // name: p
    keep(p.data());
    std::vector<double> q;
    q.assign(h.begin(), h.end()); // name: q
    keep(q.data());
    std::vector<std::vector<int>> r(2);
    r[1].reserve(n); // name: r[]
    keep(r[1].data());
    r.push_back(std::vector<int>(n)); // name: r[]
    keep(r.data());
    std::unordered_map<int, int> s;
    s.reserve(n); // name: s
    keep(&s);
    std::map<int, Node> t;
    t[3].payload[0] = 1; // name: t
    keep(&t);
    auto u = make_vector(n); // name: u
    keep(u.data());
    std::vector<Node> v;
    v.emplace_back(); // name: v
    keep(v.data());
}

static void lambdas()
{
    std::vector<char> w, x;
    auto grow = [&](std::size_t size) {
        w.resize(size); // name: w
        keep(w.data());
    };
    grow(n);
    [&] { x.resize(n); keep(x.data()); }(); // name: x
}

static void several_lines()
{
    std::vector<double> y( // name: y
        n,
        1.0);
    keep(y.data());
    std::vector<double>
        z(n); // name: z
    keep(z.data());
}

static void several_declarators()
{
    std::vector<int> first(n), second(n); // name: first|second
    keep(first.data());
    keep(second.data());
}

int main()
{
    keep(at_start.data());
    auto *buffer = new Buffer(n);
    buffer->fill(n);
    keep(buffer);
    pointers();
    containers();
    lambdas();
    several_lines();
    several_declarators();
    Library<double> library(n);
    library.reset();
    keep(&library);
    return 0;
}
