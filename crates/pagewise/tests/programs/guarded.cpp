/* C++: what one operator makes and another gives back (CWE 762); with "good" all forms rightly. */
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

struct alignas(64) Wide {
    char bytes[128];
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "new-free"))
        free(new int(1)); // BUG new-free
    if (!strcmp(name, "malloc-delete"))
        delete static_cast<int *>(malloc(4)); // BUG malloc-delete
    if (!strcmp(name, "array-delete"))
        delete new int[10]; // BUG array-delete
    if (!strcmp(name, "wrong-size"))
        operator delete(operator new(24), size_t(16)); // BUG wrong-size
    if (!strcmp(name, "wrong-alignment"))
        operator delete(operator new(24, std::align_val_t(64))); // BUG wrong-alignment
    if (!strcmp(name, "no-memory"))
        return *static_cast<char *>(operator new(size_t(1) << 60));
    if (!strcmp(name, "caught-no-memory")) {
        int caught = 0;
        for (int form = 0; form < 4; form++)
            try {
                std::string inside(100, 'x'); // is to be destroyed on the way
                size_t bytes = size_t(1) << 60;
                void *volatile made = form == 0   ? operator new(bytes)
                                      : form == 1 ? operator new[](bytes)
                                      : form == 2 ? operator new(bytes, std::align_val_t(64))
                                                  : operator new[](bytes, std::align_val_t(64));
                free(made);
            } catch (const std::bad_alloc &) {
                caught++;
            }
        return caught == 4 && new (std::nothrow) char[size_t(1) << 60] == nullptr ? 0 : 1;
    }
    if (!strcmp(name, "good")) {
        delete new int(1);
        delete[] new int[10];
        delete[] new (std::nothrow) char[3];
        Wide *wide = new Wide;
        if (reinterpret_cast<size_t>(wide) % 64)
            abort();
        delete wide;
        delete[] new Wide[3];
        operator delete(operator new(24), size_t(24));
        operator delete(operator new(24, std::align_val_t(64)), size_t(24), std::align_val_t(64));
        operator delete[](operator new[](24, std::align_val_t(8)), std::align_val_t(8));
        std::vector<std::string> words;
        for (int i = 0; i < 1000; i++)
            words.push_back(std::string(i % 100, 'x'));
    }
    return 0;
}
