// Boosted trees over a table of 100 columns of 1.5 MB: each level of a tree looks at every fourth column, from one that differs by level and tree,
// and what it does not look at lies in between.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr uint32_t ROWS = 1500000;
constexpr int COLUMNS = 100, BINS = 64, TREES = 4, DEPTH = 3, EVERY = 4;

uint64_t state = 88172645463325252u;

uint32_t next_random() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>(state >> 32);
}

struct Node {
    uint32_t begin, end;
    int depth;
};

struct Split {
    int column = -1, bin = 0;
    double gain = 0;
};

using Column = std::vector<uint8_t>;

Split best_split(const std::vector<Column> &table, const std::vector<float> &gradient, const std::vector<uint32_t> &rows,
                 const Node &node, int first, double sum) {
    Split best;
    const double count = node.end - node.begin;
    for (int column = first; column < COLUMNS; column += EVERY) {
        double sums[BINS] = {};
        uint32_t counts[BINS] = {};
        const uint8_t *bins = table[column].data();
        for (uint32_t i = node.begin; i < node.end; i++) {
            sums[bins[rows[i]]] += gradient[rows[i]];
            counts[bins[rows[i]]]++;
        }
        double left = 0, left_count = 0;
        for (int bin = 0; bin < BINS - 1; bin++) {
            left += sums[bin];
            left_count += counts[bin];
            if (left_count < 1 || left_count >= count) {
                continue;
            }
            const double right = sum - left;
            const double gain = left * left / left_count + right * right / (count - left_count);
            if (gain > best.gain) {
                best = {column, bin, gain};
            }
        }
    }
    return best;
}

} // namespace

int main() {
    std::vector<Column> table(COLUMNS);
    std::vector<float> wanted(ROWS), predicted(ROWS), gradient(ROWS);
    std::vector<uint32_t> rows(ROWS), others(ROWS);
    for (Column &column : table) {
        column.resize(ROWS);
        std::generate(column.begin(), column.end(), [] { return next_random() % BINS; });
    }
    for (uint32_t row = 0; row < ROWS; row++) {
        wanted[row] = table[3][row] * 0.1f + table[40][row] * 0.05f - (table[77][row] > 30 ? 2.0f : 0.0f);
    }
    double check = 0;
    for (int tree = 0; tree < TREES; tree++) {
        for (uint32_t row = 0; row < ROWS; row++) {
            gradient[row] = wanted[row] - predicted[row];
            rows[row] = row;
        }
        std::vector<Node> nodes{{0, ROWS, 0}};
        while (!nodes.empty()) {
            const Node node = nodes.back();
            nodes.pop_back();
            double sum = 0;
            for (uint32_t i = node.begin; i < node.end; i++) {
                sum += gradient[rows[i]];
            }
            const double count = node.end - node.begin;
            const bool is_leaf = node.depth == DEPTH || count < 1000;
            const int first = (tree * 7 + node.depth) % EVERY;
            const Split split = is_leaf ? Split() : best_split(table, gradient, rows, node, first, sum);
            if (split.column < 0) {
                const double step = 0.3 * sum / std::max(count, 1.0);
                for (uint32_t i = node.begin; i < node.end; i++) {
                    predicted[rows[i]] += static_cast<float>(step);
                }
                check += step;
                continue;
            }
            uint32_t left = node.begin, right = 0;
            for (uint32_t i = node.begin; i < node.end; i++) {
                const uint32_t row = rows[i];
                if (table[split.column][row] <= split.bin) {
                    rows[left++] = row;
                } else {
                    others[right++] = row;
                }
            }
            std::copy_n(others.begin(), right, rows.begin() + left);
            nodes.push_back({node.begin, left, node.depth + 1});
            nodes.push_back({left, node.end, node.depth + 1});
        }
    }
    std::printf("%.6f\n", check);
}
