// Four threads walk a tree each, with frames of varying size: no two levels of the stack look alike.

#include <alloca.h>
#include <pthread.h>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

struct Node {
    Node *left, *right;
    long value;
    char payload[200];
};

static Node *build(int depth) {
    if (depth == 0) {
        return nullptr;
    }
    Node *node = static_cast<Node *>(malloc(sizeof(Node)));
    memset(node, depth, sizeof *node);
    node->left = build(depth - 1);
    node->right = build(depth - 1);
    node->value = depth;
    return node;
}

__attribute__((noinline)) static long sum(const Node *node) {
    if (node == nullptr) {
        return 0;
    }
    char *frame = static_cast<char *>(alloca(static_cast<size_t>(node->value * 37) % 300 + 1));
    frame[0] = static_cast<char>(node->value); // faults
    long left = sum(node->left);
    long right = sum(node->right);
    return left + right + frame[0];
}

// One after the other they would fit into memory.
static pthread_barrier_t together;

static void walk(long *result) {
    const Node *tree = build(16);
    for (int pass = 0; pass < 12; pass++) {
        pthread_barrier_wait(&together);
        *result += sum(tree);
    }
}

int main() {
    long results[4] = {};
    pthread_barrier_init(&together, nullptr, 4);
    std::vector<std::thread> threads;
    for (long &result : results) {
        threads.emplace_back(walk, &result);
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    return results[0] == results[3] ? 0 : 1;
}
