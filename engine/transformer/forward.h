// Runs one stack of layers over a packed batch: embeddings, attention, feed-forward and norms, as
// the spec says. All arrays are on the device.
#pragma once

#include <cstdint>
#include <span>

#include "engine/transformer/activations.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/weights.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace beamline {

// The rows of a packed batch and their division into sequences.
struct PackedRows {
  int num_rows = 0;
  int num_sequences = 0;
  int max_length = 0;                // rows of the longest sequence
  const int32_t* offsets = nullptr;  // [num_sequences + 1]
  int first_row = 0;                 // first row in the residual stream's buffer
  // Set if sequences with one row, which come first, have an attention call of their own: their
  // number, and the offsets of the other sequences, relative to their first row.
  int num_single = 0;
  const int32_t* rest_offsets = nullptr;  // [num_sequences - num_single + 1]; null: one call for
                                          // all
};

struct PackedTokens {
  PackedRows rows;
  const int32_t* ids = nullptr;        // [num_rows]
  const int32_t* positions = nullptr;  // [num_rows], rows of the position table
  const int32_t* type_ids = nullptr;   // [num_rows]; null without a type table
};

// The cache positions that each sequence of a batch reads.
struct PagedContext {
  const int32_t* lengths = nullptr;  // [num_sequences]
  int max_length = 0;
  int max_single_length = 0;  // over the first PackedRows::num_single sequences
  int32_t* tables = nullptr;  // [num_sequences, max_blocks]
  int max_blocks = 0;
};

struct DecoderInputs {
  PackedTokens tokens;
  const int32_t* slots = nullptr;  // [num_rows], where each token's keys and values are written
  PagedContext context;            // of self-attention, including this step's tokens
  PagedContext memory;             // of cross-attention
  // Whether self-attention scales scores instead of queries. An encoder's attention does so if
  // nothing else changes queries (StackSpec::edits_heads).
  bool scales_scores = false;
  // Tokens whose last hidden states are needed, ascending; null: all tokens.
  const int32_t* wanted = nullptr;  // [wanted_rows.num_rows]
  PackedRows wanted_rows;
};

class StackForward {
 public:
  // All arguments must outlive this object. `cache` has one entry per decoder layer. With a
  // communicator, spec and weights are those of one rank; null: those of the whole model. With
  // `stages` (stage.h) they are those of one stage. It receives hidden states from the previous
  // stage, unless it begins the stack, and sends them to the next, unless it ends the stack.
  StackForward(const StackSpec& spec, const StackWeights& weights, std::span<const KvLayer> cache,
               const ActivationTensors& activations, Backend& backend, Communicator* communicator,
               Communicator* stages);

  // The last hidden states of an encoder, [num_rows, hidden_size]. On a stage that does not end it:
  // its output for the next stage.
  Tensor Encode(const PackedTokens& tokens) const;
  // For decoders with cross-attention: computes each layer's keys and values from the encoder's
  // last hidden states, [num_rows, hidden_size], and stores them at `slots`, [num_rows].
  void StoreMemory(const Tensor& memory, const int32_t* slots) const;
  // Runs one layer of a causal encoder over a piece of an input; keys and values go through the
  // cache as in a decoder. Before the first layer the piece is embedded. After the last one its
  // rows of the residual stream are the last hidden states. `pending`: the norm returned by the
  // previous layer, which this layer applies. REQUIRES: one rank, one stage.
  const NormWeights* EncodeLayer(int layer, const DecoderInputs& piece,
                                 const NormWeights* pending) const;
  // The needed last hidden states of a decoder, [wanted_rows.num_rows, hidden_size], or [..,
  // projected_size] if the head reads projected ones. On a stage that does not end it: as Encode.
  Tensor Decode(const DecoderInputs& inputs) const;

 private:
  // The residual stream between two branches.
  struct Stream {
    Tensor hidden;  // [num_rows, hidden_size]
    // Post-norm: the norm that its next reader still has to apply.
    const NormWeights* pending = nullptr;
    // Parallel branches: hidden plus the output of the first branch. Empty: none yet.
    Tensor branch;
  };

  // Input of a branch: rows, and the norm that its first matmul applies to them.
  struct BranchInput {
    Tensor rows;
    FusedNorm norm;  // may be empty
    Tensor normed;   // where that matmul leaves norm(rows)

    template <typename Params>
    void GiveTo(Params& product) const {
      product.x = rows;
      product.input_norm = norm;
      product.normed = normed;
    }
  };

  // The input of the first layer here.
  Stream Enter(const PackedTokens& tokens) const;
  // The output after the last layer here.
  Tensor Leave(const Stream& stream) const;
  Tensor Hidden(const PackedRows& rows) const;
  Tensor Embed(const PackedTokens& tokens) const;
  // The same from a rank's columns of the tables; gathers the columns of all ranks.
  void EmbedColumns(EmbedParams embed) const;
  // hidden = the projected embeddings plus what is added after the projection.
  void ProjectEmbeddings(const PackedTokens& tokens, const Tensor& embedded,
                         const Tensor& hidden) const;
  // Encoders: over the keys and values of the same rows.
  void PackedSelfAttention(int layer, const PackedTokens& tokens, Stream& stream) const;
  // Queries, keys and values if nothing changes them: attention reads them from the projection's
  // output, so nothing is copied; scores are scaled instead of queries.
  void ReadProduct(int layer, const BranchInput& x, AttentionParams& attention) const;
  // The same with head norms and rotation; queries, keys and values get places of their own.
  void ProjectPacked(int layer, const PackedTokens& tokens, const BranchInput& x,
                     AttentionParams& attention) const;
  // Decoders: through the cache.
  void CachedSelfAttention(int layer, const DecoderInputs& inputs, Stream& stream) const;
  // Attention through the cache, in two calls if PackedRows::num_single is set.
  void Attend(const PackedRows& rows, const PagedContext& context,
              const AttentionParams& attention) const;
  void CrossAttention(int layer, const PackedRows& rows, const PagedContext& memory,
                      Stream& stream) const;
  void FeedForward(int layer, Stream& stream) const;
  // Unfolds the embeddings for the convolution, and adds its branch after the first layer. Every
  // rank computes it completely.
  void UnfoldEmbeddings(const PackedRows& rows, const Tensor& embedded) const;
  void Convolve(Stream& stream) const;
  // The feed-forward by a few experts per row.
  void RoutedFeedForward(int layer, Stream& stream) const;
  // The output of the shared expert.
  Tensor SharedExpert(const ExpertWeights& weights, const Tensor& x) const;

  // Pre-norm: hidden += branch(norm(hidden)). Post-norm: hidden = norm(hidden + branch(hidden)),
  // where the norm stays pending. branch(input) returns its last operator, without residual and
  // destination. With an output norm: hidden += output_norm(branch(norm(hidden))). With parallel
  // branches, the first one is kept and the second adds both.
  template <typename Branch>
  void AddBranch(const NormWeights& norm, const NormWeights& output_norm, Stream& stream,
                 const Branch& branch) const;
  // norm(x) into y.
  NormParams NormOf(const Tensor& x, const NormWeights& weights, const Tensor& y) const;
  // The stream after its last norms and, if there is one, its projection.
  Tensor LastHidden(const Stream& stream) const;
  Tensor ProjectLast(const Tensor& hidden) const;
  FusedNorm WithWeights(const NormWeights& weights) const;
  float AttentionScale(int layer) const;
  // Sets window, cap and biases of self-attention scores.
  void EditScores(int layer, AttentionParams& attention) const;
  const Rotary* RotaryOf(int layer) const;  // null: no rotation in this layer
  // y = x W^T + bias.
  void Product(const BranchInput& x, const LinearWeights& linear, const Tensor& y) const;
  // The last matmul of a branch: x W^T + bias.
  MatMulParams Output(const Tensor& x, const LinearWeights& linear) const;
  // Common parameters of ProjectHeads with `linear`, and of Attention over `rows`.
  ProjectHeadsParams Projection(const Tensor& x, const LinearWeights& linear) const;
  AttentionParams AttentionOver(const PackedRows& rows) const;
  // Projection of a layer's own queries, keys and values, without destinations.
  ProjectHeadsParams SelfProjection(int layer, const PackedTokens& tokens,
                                    const BranchInput& x) const;

  const StackSpec& spec_;
  const StackWeights& weights_;
  const std::span<const KvLayer> cache_;
  const ActivationTensors& activations_;
  Backend& backend_;
  Communicator* const communicator_;
  Communicator* const stages_;
};

}  // namespace beamline
