// Containers of small nodes, made side by side so that each page of the heap holds some of each, and then visited in
// no order; some are given back in between and made anew.
// usage: nodes [ELEMENTS [VISITS]]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

struct Record {
    std::uint64_t words[24];
};

struct Entry {
    std::uint64_t words[16];
    std::unique_ptr<Record> record;
};

static std::uint64_t state = 42;

static std::uint64_t next_random() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int main(int argc, char **argv) {
    const std::uint64_t elements = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 40'000;
    const std::uint64_t visits = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 150'000;
    std::map<std::uint64_t, Entry> tree;
    std::unordered_map<std::uint64_t, std::string> names;
    for (std::uint64_t i = 0; i < elements; i++) {
        Entry &entry = tree[i * 2654435761u]; // line of tree
        entry.words[0] = i;
        names.emplace(i, std::string(100 + next_random() % 500, 'n')); // line of names
        if (i % 4 == 0)
            entry.record = std::make_unique<Record>(); // line of records
    }
    for (std::uint64_t i = 0; i < elements; i += 3)
        names.erase(i);
    for (std::uint64_t i = 0; i < elements; i += 3)
        names.emplace(i, std::string(300, 'm')); // line of new names
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < visits; i++) {
        const std::uint64_t key = next_random() % elements;
        Entry &entry = tree.at(key * 2654435761u);
        sum += entry.words[0] + names.at(key).size();
        if (entry.record)
            sum += ++entry.record->words[5];
    }
    std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
