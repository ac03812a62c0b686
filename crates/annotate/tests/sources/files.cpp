// As files.c, in C++. usage: files FILE WRITTEN
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>
#include <vector>

namespace {

struct Reader {
    int file;
    long read(char *to, std::size_t bytes) { return ::pread(file, to, bytes, 4096); } // hint random
    long next(char *to, std::size_t bytes) { return ::read(file, to, bytes); } // hint drop
};

} // namespace

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    std::vector<char> buffer(1 << 16);
    unsigned long sum = 0;
    auto add = [&](long got) {
        for (long i = 0; i < got; i++)
            sum = sum * 31 + static_cast<unsigned char>(buffer[i]);
    };
    Reader reader{open(arguments[1], O_RDONLY)};
    add(reader.read(buffer.data(), 5000)); // refused
    while (long got = reader.next(buffer.data(), buffer.size()))
        add(got);
    close(reader.file);
    std::ifstream stream(arguments[1]);
    stream.read(buffer.data(), 777); // refused
    add(stream.gcount());
    std::FILE *plain = std::fopen(arguments[1], "r");
    add(static_cast<long>(std::fread(buffer.data(), 1, 4000, plain))); // refused
    auto got = fread(buffer.data(), 1, buffer.size(), plain); // hint sequential
    add(static_cast<long>(got));
    std::fclose(plain);
    std::printf("%lu\n", sum);
}
