// A header-only library: its containers belong to the program, not to the runtime.
#pragma once
#include <cstddef>
#include <vector>

template <typename T>
class Library {
public:
    explicit Library(std::size_t size) : size_(size) {}
    void reset()
    {
        _source.resize(size_); // name: _source
        _cost.assign(size_, T()); // name: _cost
    }

private:
    std::size_t size_;
    std::vector<int> _source;
    std::vector<T> _cost;
};
