// Sessions of a web site: the last hits in a window, sessions that go on in a hash table, those that are over in a vector for the report.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::uint32_t hits = 4500000, window_hits = 2000000;

struct Hit {
    std::uint64_t user;
    std::uint32_t time, page, bytes, referrer;
};

struct Session {
    std::uint32_t begin, end, hits, live;
    std::uint64_t bytes;
    std::uint32_t pages[8];
};

struct Closed {
    std::uint64_t user;
    std::uint32_t begin, length, hits, kibibytes;
};

std::uint64_t state = 0x9E3779B97F4A7C15u;

std::uint64_t next_random() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

// Regulars, busy newcomers, and a long tail that drifts on.
std::uint64_t user_of(std::uint64_t random, std::uint64_t base) {
    if ((random & 15) < 5)
        return random >> 48 & 0x3fff;
    if ((random & 15) < 10)
        return base + 20000 + (random >> 40) % 30000;
    return base + 50000 + (random >> 32) % 900000;
}

void note(Session &session, const Hit &hit) {
    if (session.hits == 0)
        session.begin = hit.time;
    session.end = hit.time;
    session.pages[session.hits & 7] = hit.page;
    session.hits++;
    session.live++;
    session.bytes += hit.bytes;
}

} // namespace

int main() {
    std::deque<Hit> window;
    std::unordered_map<std::uint64_t, Session> live;
    std::vector<Closed> closed;
    std::uint64_t base = 1;
    for (std::uint32_t time = 0; time < hits; time++) {
        std::uint64_t random = next_random();
        Hit hit{user_of(random, base), time, static_cast<std::uint32_t>(random >> 20 & 0xffff), static_cast<std::uint32_t>(random >> 10 & 0x3fff), 0};
        if (time % 5 == 0)
            base++;
        note(live[hit.user], hit);
        window.push_back(hit);
        if (window.size() <= window_hits)
            continue;
        std::uint64_t user = window.front().user;
        auto found = live.find(user);
        if (--found->second.live == 0) {
            const Session &over = found->second;
            closed.push_back({user, over.begin, over.end - over.begin, over.hits, static_cast<std::uint32_t>(over.bytes >> 10)});
            live.erase(found);
        }
        window.pop_front();
    }
    std::vector<std::uint32_t> lengths;
    lengths.reserve(closed.size());
    std::uint64_t kibibytes = 0;
    for (const Closed &session : closed) {
        lengths.push_back(session.length);
        kibibytes += session.kibibytes;
    }
    std::nth_element(lengths.begin(), lengths.begin() + lengths.size() / 2, lengths.end());
    std::printf("%zu %zu %u %llu\n", live.size(), closed.size(), lengths[lengths.size() / 2], static_cast<unsigned long long>(kibibytes));
}
