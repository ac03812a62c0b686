// Static storage of all kinds; "global:" comments say what each is called ("global-gcc:" where
// compilers differ on the line).
#include <cstdlib>

double matrix[4096]; // global: matrix
__attribute__((used)) static int counters[5000] = {1, 2, 3}; // global: counters
const int constants[5000] = {1, 2, 3};
static thread_local char per_thread[70000];
char small[16];

namespace ns {
char buffer[70000]; // global: ns::buffer
namespace {
__attribute__((used)) char hidden[70000]; // global: ns::hidden
}
} // namespace ns

struct Cache {
    static long entries[9000]; // global-clang: Cache::entries
    inline static long lines[9000]; // global: Cache::lines
};
long Cache::entries[9000]; // global-gcc: Cache::entries

extern "C" long work(int index)
{
    static long table[9000]; // global: work::table
    table[index] += 1;
    return table[index] + constants[index];
}

template <typename T>
T *pool()
{
    static T items[9000]; // global: pool::items
    return items;
}

int main(int argc, char **)
{
    ns::hidden[argc] = ns::buffer[argc] = per_thread[argc] = small[argc];
    Cache::entries[argc] = Cache::lines[argc] = counters[argc];
    matrix[argc] = pool<double>()[argc];
    return static_cast<int>(work(argc));
}
