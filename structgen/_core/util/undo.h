// Takes a change back when a scope ends: the one way in which searches backtrack and restore what they set.
#pragma once

#include <utility>

namespace structgen {

template <class Revert>
class [[nodiscard]] Undo {
 public:
  explicit Undo(Revert revert) : revert_(std::move(revert)) {}
  ~Undo() {
    if (pending_) revert_();
  }
  Undo(const Undo &) = delete;
  Undo &operator=(const Undo &) = delete;

  // Keeps the change if the search has succeeded; returns its argument.
  bool keep_if(bool succeeded) {
    if (succeeded) pending_ = false;
    return succeeded;
  }

 private:
  Revert revert_;
  bool pending_ = true;
};

}  // namespace structgen
