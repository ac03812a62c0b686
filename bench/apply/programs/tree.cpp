// A tree of small blocks that is looked up at random, beside an array that is swept.
#include <cstdint>
#include <cstdio>
#include <vector>

struct Node {
    std::uint64_t key, value;
    Node *left, *right;
};

static std::uint64_t state = 88172645463325252u;

static std::uint64_t random_word() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main() {
    constexpr std::size_t nodes = (64u << 20) / 48, words = (128u << 20) / 8, words_of_page = 512;
    Node *root = nullptr;
    for (std::size_t number = 0; number < nodes; number++) {
        Node *fresh = new Node{random_word(), number, nullptr, nullptr};
        Node **at = &root;
        while (*at)
            at = fresh->key < (*at)->key ? &(*at)->left : &(*at)->right;
        *at = fresh;
    }
    std::vector<std::uint64_t> array(words);
    for (auto &word : array)
        word = random_word();
    std::uint64_t sum = 0;
    for (int round = 0; round < 20; round++)
        for (std::size_t page = 0; page < words; page += words_of_page) {
            for (std::size_t at = page; at < page + words_of_page; at++) {
                sum += array[at];
                array[at] ^= sum;
            }
            for (int look_up = 0; look_up < 2; look_up++) {
                std::uint64_t key = random_word();
                for (const Node *at = root; at; at = key < at->key ? at->left : at->right)
                    sum += at->value;
            }
        }
    std::printf("%llx\n", static_cast<unsigned long long>(sum));
}
