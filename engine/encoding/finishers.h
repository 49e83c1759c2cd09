// What becomes of the vectors of an input on the host, one step each: unit length, a prefix of the
// dimensions, the function of a classifier's scores.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/api/request.h"

namespace beamline {

// Vectors on the host.
struct HostRows {
  std::vector<float> values;  // [num_rows, width]
  int32_t width = 0;
};

class Finisher {
 public:
  virtual ~Finisher() = default;
  // [num_rows, width] becomes [num_rows, width] of a width that may be another.
  virtual void Apply(HostRows& rows) const = 0;
};

// Makes each row a unit vector; a row of zeros stays zero.
class UnitLength final : public Finisher {
 public:
  void Apply(HostRows& rows) const override;
};

// Keeps the first `dimensions` of each row (a Matryoshka embedding), made a unit vector again or
// not. Rows of that width stay as they are.
class FirstDimensions final : public Finisher {
 public:
  FirstDimensions(int32_t dimensions, bool normalize)
      : dimensions_(dimensions), normalize_(normalize) {}
  void Apply(HostRows& rows) const override;

 private:
  const int32_t dimensions_;
  const bool normalize_;
};

// Probabilities of logits, of each row by itself, in double precision.
class ClassScores final : public Finisher {
 public:
  explicit ClassScores(ScoreFunction function) : function_(function) {}
  void Apply(HostRows& rows) const override;

 private:
  const ScoreFunction function_;
};

}  // namespace beamline
