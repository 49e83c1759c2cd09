#include "kernels/range_allocator.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/check.h"
#include "base/math.h"

namespace beamline {

RangeAllocator::RangeAllocator(size_t size, int num_uses)
    : size_(size / kAlignment * kAlignment), num_uses_(num_uses) {
  if (size_ > 0) pieces_[0] = {.size = size_};
}

int RangeAllocator::AddOwner() {
  owners_[next_owner_].used.resize(num_uses_, 0);
  return next_owner_++;
}

void RangeAllocator::RemoveOwner(int owner) {
  BEAMLINE_CHECK(owners_.erase(owner) == 1);
  for (auto& [offset, piece] : pieces_) {
    if (piece.owner == owner) piece = {.size = piece.size};
  }
  MergeFreePieces();
}

template <typename Visit>
void RangeAllocator::ForEachStretch(int owner, const Visit& visit) const {
  for (auto it = pieces_.begin(); it != pieces_.end();) {
    const auto first = it;
    size_t bytes = 0;
    for (; it != pieces_.end() && IsFreeFor(it->second, owner); ++it) bytes += it->second.size;
    if (bytes > 0) {
      visit(first, bytes);
    } else {
      ++it;
    }
  }
}

std::optional<size_t> RangeAllocator::Allocate(int owner, size_t bytes, int use) {
  BEAMLINE_CHECK(use >= 0 && use < num_uses_);
  Owner& books = owners_.at(owner);
  if (bytes > size_) return std::nullopt;  // otherwise rounding up could overflow
  bytes = RoundUp(std::max<size_t>(bytes, 1), kAlignment);
  // Best fit keeps large stretches whole.
  auto best = pieces_.cend();
  size_t best_bytes = 0;
  ForEachStretch(owner, [&](Pieces::const_iterator first, size_t free_bytes) {
    if (free_bytes < bytes || (best != pieces_.cend() && free_bytes >= best_bytes)) return;
    best = first;
    best_bytes = free_bytes;
  });
  if (best == pieces_.cend()) return std::nullopt;

  const size_t offset = best->first;
  // Removes the pieces of the stretch. The last one may keep a rest.
  for (size_t taken = 0; taken < bytes;) {
    const Piece piece = best->second;
    best = pieces_.erase(best);
    const size_t part = std::min(piece.size, bytes - taken);
    taken += part;
    if (part == piece.size) continue;
    Piece rest = piece;
    rest.size -= part;
    pieces_[offset + taken] = rest;
  }
  pieces_[offset] = {.size = bytes, .owner = owner, .use = use};
  books.used[use] += bytes;
  return offset;
}

void RangeAllocator::Free(int owner, size_t offset) {
  const auto it = pieces_.find(offset);
  BEAMLINE_CHECK(it != pieces_.end() && it->second.owner == owner && it->second.use != kFreed);
  Owner& books = owners_.at(owner);
  Piece& piece = it->second;
  books.used[piece.use] -= piece.size;
  piece.use = kFreed;
  piece.freed_as = ++books.num_frees;
}

void RangeAllocator::Settle(int owner, uint64_t num_frees) {
  BEAMLINE_CHECK(num_frees <= owners_.at(owner).num_frees);
  for (auto& [offset, piece] : pieces_) {
    if (piece.owner == owner && piece.use == kFreed && piece.freed_as <= num_frees) {
      piece = {.size = piece.size};
    }
  }
  MergeFreePieces();
}

void RangeAllocator::MergeFreePieces() {
  for (auto it = pieces_.begin(); it != pieces_.end();) {
    const auto next = std::next(it);
    if (next == pieces_.end()) break;
    if (it->second.owner == kAnybody && next->second.owner == kAnybody) {
      it->second.size += next->second.size;
      pieces_.erase(next);
    } else {
      it = next;
    }
  }
}

size_t RangeAllocator::used(int use) const {
  size_t bytes = 0;
  for (const auto& [owner, books] : owners_) bytes += books.used[use];
  return bytes;
}

size_t RangeAllocator::unused() const {
  size_t bytes = size_;
  for (const auto& [owner, books] : owners_) {
    bytes -= std::accumulate(books.used.begin(), books.used.end(), size_t{0});
  }
  return bytes;
}

size_t RangeAllocator::largest_free(int owner) const {
  size_t largest = 0;
  ForEachStretch(owner,
                 [&](Pieces::const_iterator, size_t bytes) { largest = std::max(largest, bytes); });
  return largest;
}

}  // namespace beamline
