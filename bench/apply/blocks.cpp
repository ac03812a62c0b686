// Small blocks, 192 MiB of them: containers as programs in C++ have them, gone through again and again. Each prints a checksum, the same in
// every run.

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t bytes = std::size_t{192} << 20;
// Of a node's words, what the allocator and the links take.
using Words = std::array<std::uint64_t, 10>;
constexpr std::size_t nodes = bytes / (sizeof(Words) + 32);

thread_local std::uint64_t state = 88172645463325252u;

std::uint64_t next_random() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

Words fresh_words() { return {next_random(), next_random(), next_random(), next_random()}; }

std::uint64_t sum_of(const std::list<Words> &list, int round) {
    std::uint64_t sum = 0;
    for (const Words &words : list)
        sum += words[round % 4];
    return sum;
}

// Each node lies above the one before, or below it.
std::list<Words> filled(bool is_up, std::size_t length = nodes) {
    std::list<Words> list;
    for (std::size_t node = 0; node < length; node++)
        list.insert(is_up ? list.end() : list.begin(), fresh_words());
    return list;
}

std::uint64_t swept(const std::list<Words> &list) {
    std::uint64_t sum = 0;
    for (int round = 0; round < 8; round++)
        sum += sum_of(list, round);
    return sum;
}

std::uint64_t linked() { return swept(filled(true)); }

std::uint64_t linked_down() { return swept(filled(false)); }

std::uint64_t linked_written() {
    std::list<Words> list = filled(true);
    std::uint64_t sum = 0;
    for (int round = 0; round < 8; round++)
        for (Words &words : list)
            sum += words[round % 4]++;
    return sum;
}

// Made by a thread, in a heap of its own, as what comes in is by threads that read; and threads that have a list each.
std::uint64_t linked_aside() {
    std::list<Words> list;
    std::thread([&list] { list = filled(true); }).join();
    return swept(list);
}

std::uint64_t linked_workers() {
    std::array<std::uint64_t, 2> sums{};
    const auto work = [](std::uint64_t &sum) { sum = swept(filled(true, nodes / 2)); };
    std::thread other(work, std::ref(sums[0]));
    std::thread(work, std::ref(sums[1])).join();
    other.join();
    return sums[0] + sums[1];
}

std::uint64_t map() {
    std::map<std::uint64_t, std::uint64_t> numbers;
    for (std::size_t number = 0; number < bytes / 64; number++)
        numbers.emplace_hint(numbers.end(), number, next_random());
    std::uint64_t sum = 0;
    for (int round = 0; round < 6; round++)
        for (const auto &[key, value] : numbers)
            sum += key ^ value;
    return sum;
}

// Rows of 16 KiB.
std::uint64_t matrix() {
    constexpr std::size_t columns = 2048;
    std::vector<std::vector<double>> rows(bytes / columns / sizeof(double), std::vector<double>(columns));
    for (auto &row : rows)
        for (double &value : row)
            value = static_cast<double>(next_random() % 1000);
    const std::vector<double> factors(columns, 0.5);
    double sum = 0;
    for (int round = 0; round < 8; round++)
        for (const auto &row : rows)
            for (std::size_t column = 0; column < columns; column++)
                sum += row[column] * factors[column];
    return static_cast<std::uint64_t>(sum);
}

struct Record {
    std::string name;
    std::array<double, 8> values;
};

std::uint64_t records() {
    std::vector<std::unique_ptr<Record>> all;
    while (all.size() < bytes / 176) {
        auto record = std::make_unique<Record>();
        record->name = "a record with a name of its own, " + std::to_string(next_random());
        record->values.fill(static_cast<double>(next_random() % 1000));
        all.push_back(std::move(record));
    }
    double sum = 0;
    for (int round = 0; round < 8; round++)
        for (const auto &record : all)
            sum += record->values[round] + record->name.back();
    return static_cast<std::uint64_t>(sum);
}

std::uint64_t deque() {
    std::deque<std::uint64_t> numbers;
    while (numbers.size() < bytes / sizeof(std::uint64_t))
        numbers.push_back(next_random());
    std::uint64_t sum = 0;
    for (int round = 0; round < 8; round++)
        for (std::uint64_t number : numbers)
            sum += number ^ round;
    return sum;
}

// A list and rows by turns, and an array beside.
std::uint64_t mixed() {
    std::list<Words> list;
    std::vector<std::vector<double>> rows;
    std::vector<double> array(bytes / 3 / sizeof(double));
    for (double &value : array)
        value = static_cast<double>(next_random() % 1000);
    for (std::size_t turn = 0; turn < bytes * 2 / 3 / (32 * 112 + 4112); turn++) {
        for (int node = 0; node < 32; node++)
            list.push_back(fresh_words());
        rows.emplace_back(512, static_cast<double>(next_random() % 1000));
    }
    std::uint64_t sum = 0;
    for (int round = 0; round < 6; round++) {
        double of_rows = 0;
        for (const auto &row : rows)
            for (double value : row)
                of_rows += value;
        for (double value : array)
            of_rows += value;
        sum += sum_of(list, round) + static_cast<std::uint64_t>(of_rows);
    }
    return sum;
}

} // namespace

int main(int count, char **arguments) {
    const std::pair<const char *, std::uint64_t (*)()> all[] = {
        {"linked", linked}, {"linked-down", linked_down}, {"linked-written", linked_written}, {"linked-aside", linked_aside}, {"linked-workers", linked_workers},
        {"map", map},       {"matrix", matrix}, {"records", records},         {"deque", deque},                   {"mixed", mixed},
    };
    for (const auto &[name, run] : all)
        if (count == 2 && std::strcmp(arguments[1], name) == 0) {
            std::printf("%llu\n", static_cast<unsigned long long>(run()));
            return 0;
        }
    std::fprintf(stderr, "usage: blocks linked|linked-down|linked-written|linked-aside|linked-workers|map|matrix|records|deque|mixed\n");
    return 2;
}
