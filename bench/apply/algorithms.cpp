// Textbook algorithms over 160 to 200 MiB, written without a thought of paging: what plans made by pagewise alone are tried with. Each prints a
// checksum, the same in every run.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

thread_local std::uint64_t state = 88172645463325252u;

std::uint64_t next_random() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

std::vector<float> random_floats(std::size_t count) {
    std::vector<float> values(count);
    for (float &value : values)
        value = static_cast<float>(next_random() % 1000) / 10;
    return values;
}

// A graph of 2^20 nodes by its edges, and their weights; two vectors of ranks.
std::uint64_t page_rank() {
    constexpr std::uint32_t nodes = 1 << 20, edges = 22 << 20;
    std::vector<std::uint32_t> from(edges), first(nodes + 1);
    for (std::uint32_t &node : from)
        node = next_random() % nodes;
    for (std::uint32_t node = 0; node <= nodes; node++)
        first[node] = std::uint64_t{edges} * node / nodes;
    const std::vector<double> weights(edges / 2, 0.5);
    std::vector<double> ranks(nodes, 1.0 / nodes), next(nodes);
    for (int round = 0; round < 8; round++) {
        for (std::uint32_t node = 0; node < nodes; node++) {
            double sum = 0;
            for (std::uint32_t edge = first[node]; edge < first[node + 1]; edge++)
                sum += ranks[from[edge]] * weights[edge / 2];
            next[node] = sum;
        }
        std::swap(ranks, next);
    }
    double sum = 0;
    for (double rank : ranks)
        sum += rank;
    return static_cast<std::uint64_t>(sum * 1e12);
}

template <std::size_t dimensions> float distance(const float *a, const float *b) {
    float sum = 0;
    for (std::size_t i = 0; i < dimensions; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

// Of so many points, the nearest one to another.
template <std::size_t dimensions> std::size_t nearest(const float *points, std::size_t count, const float *other) {
    std::size_t best = 0;
    float least = 1e30f;
    for (std::size_t point = 0; point < count; point++) {
        const float found = distance<dimensions>(points + point * dimensions, other);
        if (found < least) {
            least = found;
            best = point;
        }
    }
    return best;
}

std::uint64_t k_means() {
    constexpr std::size_t dimensions = 16, clusters = 12, count = 192 * mebibyte / dimensions / sizeof(float);
    const std::vector<float> points = random_floats(count * dimensions);
    std::vector<float> centers = random_floats(clusters * dimensions);
    for (int round = 0; round < 5; round++) {
        std::vector<double> sums(clusters * dimensions);
        std::vector<std::size_t> members(clusters);
        for (std::size_t point = 0; point < count; point++) {
            const float *here = &points[point * dimensions];
            const std::size_t cluster = nearest<dimensions>(centers.data(), clusters, here);
            members[cluster]++;
            for (std::size_t i = 0; i < dimensions; i++)
                sums[cluster * dimensions + i] += here[i];
        }
        for (std::size_t i = 0; i < centers.size(); i++)
            if (members[i / dimensions] > 0)
                centers[i] = static_cast<float>(sums[i] / members[i / dimensions]);
    }
    double sum = 0;
    for (float center : centers)
        sum += center;
    return static_cast<std::uint64_t>(sum * 1000);
}

std::uint64_t nearest_neighbours() {
    constexpr std::size_t dimensions = 32, count = 192 * mebibyte / dimensions / sizeof(float);
    const std::vector<float> points = random_floats(count * dimensions);
    std::uint64_t sum = 0;
    for (int query = 0; query < 10; query++)
        sum += nearest<dimensions>(points.data(), count, random_floats(dimensions).data());
    return sum;
}

// Conway's, of two generations.
std::uint64_t life() {
    constexpr std::size_t side = 9800;
    std::vector<unsigned char> now(side * side), next(side * side);
    for (unsigned char &cell : now)
        cell = next_random() & 1;
    for (int round = 0; round < 8; round++) {
        for (std::size_t at = side + 1; at < side * (side - 1) - 1; at++) {
            const unsigned char *above = &now[at - side], *here = &now[at], *below = &now[at + side];
            const int around = above[-1] + above[0] + above[1] + here[-1] + here[1] + below[-1] + below[0] + below[1];
            next[at] = around == 3 || (around == 2 && *here);
        }
        std::swap(now, next);
    }
    std::uint64_t alive = 0;
    for (unsigned char cell : now)
        alive += cell;
    return alive;
}

// A table is filled from its start, and read from its end.
std::uint64_t backtrack() {
    constexpr std::size_t states = 64, steps = 192 * mebibyte / states / sizeof(float);
    std::vector<float> table(steps * states);
    std::uint64_t sum = 0;
    for (int round = 0; round < 3; round++) {
        std::array<float, states> scores;
        scores.fill(1);
        for (std::size_t step = 0; step < steps; step++)
            for (std::size_t at = 0; at < states; at++) {
                scores[at] = scores[at] * 0.9f + static_cast<float>((step * 31 + at * 17 + round) % 97);
                table[step * states + at] = scores[at];
            }
        float best = 0;
        for (std::size_t step = steps; step-- > 0;)
            best += *std::max_element(&table[step * states], &table[(step + 1) * states]);
        sum += static_cast<std::uint64_t>(best);
    }
    return sum;
}

std::uint64_t radix_sort() {
    constexpr std::size_t count = 96 * mebibyte / sizeof(std::uint64_t);
    std::vector<std::uint64_t> values(count), sorted(count);
    for (std::uint64_t &value : values)
        value = next_random();
    for (int shift = 0; shift < 64; shift += 8) {
        std::array<std::size_t, 257> places{};
        for (std::uint64_t value : values)
            places[((value >> shift) & 255) + 1]++;
        for (std::size_t digit = 0; digit < 256; digit++)
            places[digit + 1] += places[digit];
        for (std::uint64_t value : values)
            sorted[places[(value >> shift) & 255]++] = value;
        std::swap(values, sorted);
    }
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < count; at += 997)
        sum ^= values[at] * at;
    return sum;
}

// Each node's edges lead to some of the next 4,000: what is visited moves through the graph as a band.
std::uint64_t breadth_first() {
    constexpr std::uint32_t nodes = 2 << 20, degree = 20, unknown = ~0u;
    std::vector<std::uint32_t> to(std::size_t{nodes} * degree);
    for (std::size_t edge = 0; edge < to.size(); edge++)
        to[edge] = (edge / degree + 1 + next_random() % 4000) % nodes;
    std::uint64_t sum = 0;
    for (std::uint32_t search = 0; search < 3; search++) {
        std::vector<std::uint32_t> distances(nodes, unknown), now{search * 1000}, next;
        distances[now[0]] = 0;
        std::uint32_t level = 0;
        for (; !now.empty(); level++, std::swap(now, next)) {
            next.clear();
            for (std::uint32_t node : now)
                for (std::uint32_t edge = 0; edge < degree; edge++) {
                    const std::uint32_t found = to[std::size_t{node} * degree + edge];
                    if (distances[found] == unknown) {
                        distances[found] = level + 1;
                        next.push_back(found);
                    }
                }
        }
        sum += level;
    }
    return sum;
}

// One column is looked through, of two others what belongs to one value in 500.
std::uint64_t filter() {
    constexpr std::size_t rows = 64 * mebibyte / sizeof(std::uint64_t);
    std::vector<std::uint64_t> keys(rows), amounts(rows), numbers(rows);
    for (std::size_t row = 0; row < rows; row++) {
        keys[row] = next_random() % 1000;
        amounts[row] = next_random();
        numbers[row] = row;
    }
    std::uint64_t sum = 0;
    for (std::uint64_t query = 0; query < 12; query++)
        for (std::size_t row = 0; row < rows; row++)
            if (keys[row] / 2 == query * 7)
                sum += amounts[row] ^ numbers[row];
    return sum;
}

// Rows are summed up by key, in a hash table.
std::uint64_t aggregate() {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> rows(144 * mebibyte / 16);
    for (auto &[key, amount] : rows) {
        key = next_random() % 500000;
        amount = next_random() % 100;
    }
    std::unordered_map<std::uint64_t, std::uint64_t> sums;
    sums.reserve(600000);
    for (int round = 0; round < 5; round++)
        for (const auto &[key, amount] : rows)
            sums[key] += amount;
    std::uint64_t sum = 0;
    for (const auto &[key, amount] : sums)
        sum += key * amount;
    return sum;
}

// Threads with a vector of strings each.
std::uint64_t strings() {
    std::array<std::uint64_t, 4> sums{};
    std::vector<std::thread> threads;
    for (std::size_t number = 0; number < sums.size(); number++)
        threads.emplace_back([number, &sums] {
            state += number;
            std::vector<std::string> all;
            while (all.size() < 420000)
                all.push_back("a string that is too long for the small buffer, number " + std::to_string(next_random()) +
                              std::string(20, 'x'));
            for (int round = 0; round < 8; round++)
                for (const std::string &one : all)
                    sums[number] += one[round] + one.size();
        });
    for (std::thread &thread : threads)
        thread.join();
    return sums[0] + sums[1] + sums[2] + sums[3];
}

// Threads bring one batch after the other, and all that has come so far is summed up.
std::uint64_t batches() {
    std::vector<std::vector<double>> all;
    double sum = 0;
    for (int batch = 0; batch < 24; batch++) {
        std::thread([&all] {
            all.emplace_back(mebibyte);
            for (double &value : all.back())
                value = static_cast<double>(next_random() % 100);
        }).join();
        for (const auto &values : all)
            for (double value : values)
                sum += value;
    }
    return static_cast<std::uint64_t>(sum);
}

// The wave equation in a cube, of three steps in time.
std::uint64_t wave() {
    constexpr std::size_t side = 200, row = side, plane = side * side, count = side * plane;
    std::vector<double> before(count), now(count), next(count);
    now[count / 2 + plane / 2] = 1;
    for (int step = 0; step < 10; step++) {
        for (std::size_t at = plane + row + 1; at < count - plane - row - 1; at++) {
            const double around = now[at - 1] + now[at + 1] + now[at - row] + now[at + row] + now[at - plane] + now[at + plane];
            next[at] = 2 * now[at] - before[at] + 0.1 * (around - 6 * now[at]);
        }
        std::swap(before, now);
        std::swap(now, next);
    }
    double sum = 0;
    for (double value : now)
        sum += value * value;
    return static_cast<std::uint64_t>(sum * 1e9);
}

} // namespace

int main(int count, char **arguments) {
    const std::pair<const char *, std::uint64_t (*)()> all[] = {
        {"page-rank", page_rank},
        {"k-means", k_means},
        {"nearest", nearest_neighbours},
        {"life", life},
        {"backtrack", backtrack},
        {"radix-sort", radix_sort},
        {"breadth-first", breadth_first},
        {"filter", filter},
        {"aggregate", aggregate},
        {"strings", strings},
        {"batches", batches},
        {"wave", wave},
    };
    for (const auto &[name, run] : all)
        if (count == 2 && std::strcmp(arguments[1], name) == 0) {
            std::printf("%llu\n", static_cast<unsigned long long>(run()));
            return 0;
        }
    std::fprintf(stderr, "usage: algorithms");
    for (const auto &[name, run] : all)
        std::fprintf(stderr, " %s", name);
    std::fprintf(stderr, ": one of them\n");
    return 2;
}
