// Each way in which containers get memory. "named X": a call follows that names X; "refused": none can.
#include <array>
#include <cstdio>
#include <deque>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

struct Options {
    std::size_t size;
};
using Numbers = std::vector<int>;
typedef std::vector<double> Reals;
using Rows = std::vector<std::vector<int>>;

static const int many = 1000;
static std::vector<int> global(1000); // refused
static std::vector<int> more(many); // refused
std::vector<int> build(Options);
static long total;

struct Image {
    void resize(std::size_t n) { total += static_cast<long>(n); }
};

struct Member {
    explicit Member(std::size_t n) : items(n), text("short") {} // refused
    explicit Member(std::vector<int> all) : items(std::move(all)) {}
    void grow(std::size_t n);
    std::vector<int> items;
    std::string text;
};

void Member::grow(std::size_t n) {
    items.resize(n); // named items
    this->items.reserve(2 * n); // named items
    text.reserve(n); // named text
}

static void lvalue(std::vector<int> &v, std::size_t n) {
    v.resize(n); // named v
}

static void rvalue(std::vector<int> &&v, std::size_t n) {
    v.resize(n); // named v
    total += static_cast<long>(v.size());
}

template <class T>
static void generic(std::vector<T> &v, std::size_t n) {
    v.resize(n); // named v
    auto &r = v;
    r.reserve(2 * n); // named r
}

static std::vector<int> straight(std::size_t n) {
    return std::vector<int>(n); // refused
}

static std::vector<int> *find(std::vector<int> &v) {
    return &v;
}

static void use(std::vector<int> v) {
    total += static_cast<long>(v.size());
}

std::vector<int> build(Options options) {
    std::vector<int> made(options.size); // named made
    return made;
}

static void run(std::size_t n, std::unique_ptr<std::vector<int>> &p, Member *member) {
    std::vector<int> build(Options);
    Rows rows(n); // named rows
    for (auto &x : rows)
        x.resize(n); // named x
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i].resize(2 * n); // named rows[]
    std::size_t at = 0;
    rows[at++].resize(n); // refused
    find(rows[0])->resize(n);
    rows.back().resize(n); // refused
    p->resize(n); // named p
    member->items.resize(3 * n); // named member->items
    auto one = std::vector<int>(n); // named one
    std::vector<int> two = std::vector<int>(n); // named two
    two = std::vector<int>(2 * n); // named two
    rows[1] = std::vector<int>(n); // named rows[]
    use(std::vector<int>(n)); // refused
    std::string text = std::string(n, 'x'); // named text
    std::string word = std::string("short");
    Numbers numbers(n); // named numbers
    Reals reals(n, 1.0); // named reals
    std::size_t m = 3;
    std::vector<int> product(n * m); // named product
    std::array<std::vector<int>, 2> pair;
    pair[0].resize(n); // named pair[]
    Image image;
    image.resize(n);
    std::vector<bool> bits(n); // refused
    bits.resize(2 * n); // refused
    std::deque<int> queue(n); // refused
    queue.resize(2 * n); // refused
    std::list<int> list(n); // refused
    auto other = std::deque<int>(n); // refused
    std::unordered_map<int, std::vector<int>> map; // refused
    map.reserve(n); // refused
    map[3].resize(n); // named map[]
    int *wide = new (std::align_val_t(64)) int[n]; // named wide
    void *raw = ::operator new(n); // named raw
    void *plain = operator new(n); // refused
    if (n > 3) [[likely]] two.resize(4 * n); // named two
    generic(reals, 2 * n);
    use(build(Options{n}));
    total += static_cast<long>(one.size() + two.size() + text.size() + word.size() + numbers.size() + product.size());
    total += static_cast<long>(bits.size() + queue.size() + list.size() + other.size() + map.size() + pair[0].size());
    ::operator delete(raw);
    ::operator delete(plain);
    ::operator delete[](wide, std::align_val_t(64));
}

int main() {
    auto p = std::make_unique<std::vector<int>>(); // named p
    Member member(9);
    Member moved(std::vector<int>(9)); // refused
    member.grow(20);
    lvalue(moved.items, 30);
    rvalue(straight(3), 40);
    run(100, p, &member);
    std::printf("%ld %zu %zu\n", total, global.size(), more.size());
    return 0;
}
