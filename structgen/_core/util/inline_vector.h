// A vector whose first elements lie in the object itself.
//
// Why: a step of the parser builds a few short lists, and a mask takes thousands of steps. Allocating those lists took
// a fifth of the time of a mask.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace structgen {

template <class T, size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  InlineVector() = default;
  InlineVector(const InlineVector &) = delete;
  InlineVector &operator=(const InlineVector &) = delete;
  InlineVector(InlineVector &&other) noexcept : heap_(std::move(other.heap_)), size_(other.size_), room_(other.room_) {
    if (!heap_) std::copy(other.begin(), other.end(), begin());
    other.size_ = 0;
    other.room_ = N;
  }
  InlineVector &operator=(InlineVector &&) = delete;

  T *begin() { return heap_ ? heap_.get() : inline_; }
  T *end() { return begin() + size_; }
  const T *begin() const { return heap_ ? heap_.get() : inline_; }
  const T *end() const { return begin() + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T &operator[](size_t i) { return begin()[i]; }
  const T &operator[](size_t i) const { return begin()[i]; }
  T &back() { return begin()[size_ - 1]; }
  void clear() { size_ = 0; }
  void pop_back() { --size_; }
  template <class Is>
  void erase_if(const Is &is) {
    size_ = static_cast<size_t>(std::remove_if(begin(), end(), is) - begin());
  }

  void push_back(const T &value) {
    const T copy = value;  // it may be an element
    if (size_ == room_) grow();
    begin()[size_++] = copy;
  }
  void append(const T *first, const T *last) {
    for (; first != last; ++first) push_back(*first);
  }
  operator std::span<const T>() const { return {begin(), size_}; }

 private:
  void grow() {
    auto more = std::make_unique_for_overwrite<T[]>(room_ * 2);
    std::copy(begin(), end(), more.get());
    heap_ = std::move(more);
    room_ *= 2;
  }

  T inline_[N];
  std::unique_ptr<T[]> heap_;
  size_t size_ = 0, room_ = N;
};

}  // namespace structgen
