// Minimum-cost flow by the network simplex method: a free stand-in for SPEC's 429.mcf.
//
// The instance is a layered transportation network that is feasible by construction: a flow is planted
// first, and capacities and supplies are chosen so that it fits. Like mcf, the program can solve in rounds:
// after each solution some arcs get a new price and the network is solved again.
//
// Of about 62 bytes per arc, the pivots work on some 25 (_source, _target, _cost, _state, _cap, _flow of the
// solver); the others are read and written once per round.

#include <lemon/network_simplex.h>
#include <lemon/static_graph.h>

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace {

using Graph = lemon::StaticDigraph;
using Solver = lemon::NetworkSimplex<Graph, int, std::int64_t>;

constexpr int kLayers = 10;
constexpr int kMostCost = 10'000;

struct Arguments {
    int nodes = 40'000;
    int arcs_per_node = 100;
    unsigned seed = 1;
    int rounds = 1;
};

struct Network {
    Graph graph;
    std::vector<int> capacity;  // by arc
    std::vector<int> cost;      // by arc
    std::vector<int> supply;    // by node; they add up to 0
};

// A read-only LEMON map over a vector that is indexed by the item's number.
template <typename Item>
struct VectorMap {
    using Key = Item;
    using Value = int;
    const std::vector<int> &values;
    int operator[](Item item) const { return values[static_cast<std::size_t>(Graph::id(item))]; }
};

// Same numbers from every C++ library, which std::uniform_int_distribution does not promise.
int below(std::mt19937_64 &random, int bound) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
}

// Node n lies in layer n % kLayers; its arcs lead to random nodes of the next layer. Layers wrap
// around, so flow may circulate; as all costs are positive no cycle is ever profitable in itself.
std::vector<std::pair<int, int>> layered_arcs(const Arguments &arguments, std::mt19937_64 &random) {
    std::vector<std::pair<int, int>> arcs;
    arcs.reserve(static_cast<std::size_t>(arguments.nodes) * static_cast<std::size_t>(arguments.arcs_per_node));
    for (int node = 0; node < arguments.nodes; ++node) {
        const int next_layer = (node + 1) % kLayers;
        const int width = (arguments.nodes - next_layer + kLayers - 1) / kLayers;
        for (int arc = 0; arc < arguments.arcs_per_node; ++arc) {
            arcs.emplace_back(node, next_layer + kLayers * below(random, width));
        }
    }
    return arcs;
}

// One arc in ten carries the planted flow; every arc has room for some more.
void plant_flow(Network &network, std::mt19937_64 &random) {
    const auto arc_count = static_cast<std::size_t>(network.graph.arcNum());
    network.capacity.resize(arc_count);
    network.cost.resize(arc_count);
    network.supply.resize(static_cast<std::size_t>(network.graph.nodeNum()));
    for (std::size_t i = 0; i < arc_count; ++i) {
        const Graph::Arc arc = Graph::arc(static_cast<int>(i));
        const int planted = below(random, 10) == 0 ? 1 + below(random, 20) : 0;
        network.capacity[i] = planted + 1 + below(random, 20);
        network.cost[i] = 1 + below(random, kMostCost);
        network.supply[static_cast<std::size_t>(Graph::id(network.graph.source(arc)))] += planted;
        network.supply[static_cast<std::size_t>(Graph::id(network.graph.target(arc)))] -= planted;
    }
}

Network generate(const Arguments &arguments) {
    std::mt19937_64 random(arguments.seed);
    Network network;
    {
        const auto arcs = layered_arcs(arguments, random);  // ordered by source, as build() requires
        network.graph.build(arguments.nodes, arcs.begin(), arcs.end());
    }
    plant_flow(network, random);
    return network;
}

// Gives one arc in eight a new cost: the next round's prices.
void reprice(Network &network, unsigned seed) {
    std::mt19937_64 random(seed);
    for (int &cost : network.cost) {
        if (below(random, 8) == 0) {
            cost = 1 + below(random, kMostCost);
        }
    }
}

// FNV-1a over every arc's flow: equal checksums mean the very same solution.
std::uint64_t checksum_of_flow(const Network &network, const Solver &solver) {
    std::uint64_t sum = 0xcbf29ce484222325U;
    for (Graph::ArcIt arc(network.graph); arc != lemon::INVALID; ++arc) {
        sum = (sum ^ static_cast<std::uint64_t>(solver.flow(arc))) * 0x100000001b3U;
    }
    return sum;
}

int solve_in_rounds(Network &network, const Arguments &arguments) {
    Solver solver(network.graph);
    const VectorMap<Graph::Arc> capacity{network.capacity};
    const VectorMap<Graph::Arc> cost{network.cost};
    const VectorMap<Graph::Node> supply{network.supply};
    solver.upperMap(capacity).supplyMap(supply);

    for (int round = 1; round <= arguments.rounds; ++round) {
        const auto begin = std::chrono::steady_clock::now();
        if (solver.costMap(cost).run(Solver::BLOCK_SEARCH) != Solver::OPTIMAL) {
            std::fprintf(stderr, "mincostflow: round %d found no optimal flow; the generator is broken\n", round);
            return EXIT_FAILURE;
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        std::printf("round %d: cost %" PRId64 ", checksum %016" PRIx64 "\n", round,
                    solver.totalCost<std::int64_t>(), checksum_of_flow(network, solver));
        std::fprintf(stderr, "round %d: %.2f s\n", round, took.count());
        reprice(network, arguments.seed + static_cast<unsigned>(round));
    }
    return EXIT_SUCCESS;
}

void print_usage(std::FILE *stream) {
    const Arguments defaults;
    std::fprintf(stream,
                 "usage: mincostflow [NODES [ARCS_PER_NODE [SEED [ROUNDS]]]]\n"
                 "Solves a generated minimum-cost-flow problem and prints each round's cost and checksum.\n"
                 "  NODES          20 to 1000000 (%d)\n"
                 "  ARCS_PER_NODE  1 to 10000 (%d), at most 500 million arcs in all; about 62 bytes each\n"
                 "  SEED           0 to 10^9 (%u)\n"
                 "  ROUNDS         1 to 1000 solutions, with new prices between them (%d)\n",
                 defaults.nodes, defaults.arcs_per_node, defaults.seed, defaults.rounds);
}

bool parse_number(const char *text, int least, int most, int &number) {
    char *end = nullptr;
    errno = 0;
    const long value = std::strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most) {
        return false;
    }
    number = static_cast<int>(value);
    return true;
}

bool parse(int count, char **values, Arguments &arguments) {
    int seed = 1;
    if (count > 5 || (count > 1 && !parse_number(values[1], 2 * kLayers, 1'000'000, arguments.nodes)) ||
        (count > 2 && !parse_number(values[2], 1, 10'000, arguments.arcs_per_node)) ||
        (count > 3 && !parse_number(values[3], 0, 1'000'000'000, seed)) ||
        (count > 4 && !parse_number(values[4], 1, 1'000, arguments.rounds))) {
        return false;
    }
    arguments.seed = static_cast<unsigned>(seed);
    // LEMON numbers arcs by int and adds two artificial arcs per node; the supplies must fit an int, too.
    return std::int64_t{arguments.nodes} * (arguments.arcs_per_node + 2) <= 500'000'000;
}

}  // namespace

int main(int count, char **values) {
    Arguments arguments;
    if (count == 2 && std::strcmp(values[1], "--help") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (!parse(count, values, arguments)) {
        print_usage(stderr);
        return 2;
    }
    Network network = generate(arguments);
    std::printf("%d nodes, %d arcs\n", network.graph.nodeNum(), network.graph.arcNum());
    return solve_in_rounds(network, arguments);
}
