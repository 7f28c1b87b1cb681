#include "util/suffix_array.h"

#include <algorithm>

#include "util/work.h"

namespace structgen {
namespace {

constexpr int32_t NONE = -1;
constexpr size_t CHARACTERS_PER_CHARGE = 4'096, UNITS_PER_CHARACTER = 8;

// One level of the recursion: `text` holds numbers below `alphabet`. At each level the text is at most half as long.
//
// A suffix is small if it is smaller than the suffix after it. The leftmost of a run of small suffixes are sorted
// first, by the numbers of their pieces (the recursion); all others are induced from them by two passes.
class Level {
 public:
  Level(const std::vector<int32_t> &text, size_t alphabet)
      : text_(text), size_(text.size()), small_(size_ + 1), order_(size_), begins_(alphabet + 1) {}

  std::vector<int32_t> sorted() {
    charge_all();
    classify();
    std::vector<int32_t> leftmost;
    for (size_t i = 1; i < size_; ++i)
      if (is_leftmost(i)) leftmost.push_back(static_cast<int32_t>(i));
    induce(leftmost);
    if (leftmost.size() > 1) induce(sort_leftmost(leftmost));
    return std::move(order_);
  }

 private:
  void charge_all() const {
    for (size_t i = 0; i < size_; i += CHARACTERS_PER_CHARGE)
      charge(std::min(size_ - i, CHARACTERS_PER_CHARGE) * UNITS_PER_CHARACTER);
  }

  void classify() {
    small_[size_] = true;  // the end of the text is smaller than every character
    for (size_t i = size_; i-- > 0;)
      small_[i] = i + 1 < size_ && (text_[i] < text_[i + 1] || (text_[i] == text_[i + 1] && small_[i + 1]));
    for (int32_t c : text_) ++begins_[static_cast<size_t>(c) + 1];
    for (size_t c = 1; c < begins_.size(); ++c) begins_[c] += begins_[c - 1];
  }

  bool is_leftmost(size_t i) const { return i > 0 && i < size_ && small_[i] && !small_[i - 1]; }

  // Puts all suffixes in order, from the leftmost small ones, of which `some` are given in order.
  void induce(const std::vector<int32_t> &some) {
    std::fill(order_.begin(), order_.end(), NONE);
    std::vector<int32_t> at(begins_.begin() + 1, begins_.end());  // the ends of the buckets
    for (size_t i = some.size(); i-- > 0;) order_[--at[character(some[i])]] = some[i];
    at.assign(begins_.begin(), begins_.end() - 1);
    auto put_large = [&](int32_t i) {
      if (i >= 0 && !small_[i]) order_[at[character(i)]++] = i;
    };
    put_large(static_cast<int32_t>(size_) - 1);
    for (size_t k = 0; k < size_; ++k)
      if (order_[k] > 0) put_large(order_[k] - 1);
    at.assign(begins_.begin() + 1, begins_.end());
    for (size_t k = size_; k-- > 0;)
      if (const int32_t i = order_[k] - 1; i >= 0 && small_[i]) order_[--at[character(i)]] = i;
  }

  // The leftmost small suffixes in order, where `order_` has their first pieces in order.
  std::vector<int32_t> sort_leftmost(const std::vector<int32_t> &leftmost) {
    std::vector<int32_t> numbers(size_ + 1, NONE);  // of the pieces, by where they begin
    int32_t count = 0, before = NONE;
    for (int32_t i : order_) {
      if (!is_leftmost(i)) continue;
      if (before != NONE && !same_piece(before, i)) ++count;
      numbers[i] = count;
      before = i;
    }
    std::vector<int32_t> pieces;
    pieces.reserve(leftmost.size());
    for (int32_t i : leftmost) pieces.push_back(numbers[i]);
    std::vector<int32_t> order;
    if (static_cast<size_t>(count) + 1 == pieces.size()) {
      order.resize(pieces.size());
      for (size_t k = 0; k < pieces.size(); ++k) order[pieces[k]] = static_cast<int32_t>(k);
    } else {
      order = Level(pieces, static_cast<size_t>(count) + 1).sorted();
    }
    for (int32_t &k : order) k = leftmost[k];
    return order;
  }

  // A piece goes to the next leftmost small suffix, its first character included, or to the end of the text.
  bool same_piece(int32_t a, int32_t b) const {
    for (size_t i = a, j = b;; ++i, ++j) {
      if (i == size_ || j == size_) return false;
      if (text_[i] != text_[j] || small_[i] != small_[j]) return false;
      const bool ends = i > static_cast<size_t>(a) && is_leftmost(i);
      if (ends != (j > static_cast<size_t>(b) && is_leftmost(j))) return false;
      if (ends) return true;
    }
  }

  size_t character(int32_t i) const { return static_cast<size_t>(text_[i]); }

  const std::vector<int32_t> &text_;
  const size_t size_;
  std::vector<bool> small_;
  std::vector<int32_t> order_, begins_;
};

}  // namespace

std::vector<int32_t> suffix_array(std::string_view text) {
  std::vector<int32_t> numbers;
  numbers.reserve(text.size());
  for (char c : text) numbers.push_back(static_cast<unsigned char>(c));
  if (numbers.empty()) return {};
  return Level(numbers, 256).sorted();
}

}  // namespace structgen
