// Each way in which C++ asks for memory, and a library loaded later that does.
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <new>

enum { LARGE = 100 << 10 };

struct alignas(64) Wide {
    char bytes[LARGE];
};

int main(int argc, char **argv) {
    char *plain = new char[LARGE];                  // line of plain
    char *nothrow = new (std::nothrow) char[LARGE]; // line of nothrow
    Wide *aligned = new Wide;                       // line of aligned
    auto shared = std::make_shared<Wide>();         // line of shared
    std::memset(plain, 1, LARGE);
    std::memset(nothrow, 1, LARGE);
    std::memset(aligned->bytes, 1, LARGE);
    std::memset(shared->bytes, 1, LARGE);
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (library == nullptr)
            return 1;
        auto make = reinterpret_cast<void *(*)()>(dlsym(library, "make"));
        if (make == nullptr || make() == nullptr)
            return 1;
    }
    ::operator delete[](plain, static_cast<std::size_t>(LARGE));
    delete[] nothrow;
    delete aligned;
    return 0;
}
