#include "engine/transformer/transformer.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/transformer/activations.h"
#include "engine/transformer/decode_bucket.h"
#include "engine/transformer/forward.h"
#include "engine/transformer/long_input.h"
#include "engine/transformer/shard.h"
#include "engine/transformer/step_inputs.h"
#include "engine/transformer/stream_scale.h"
#include "engine/transformer/weights.h"
#include "fmt/format.h"

namespace beamline {
namespace {

class PlannedTransformer final : public Transformer {
 public:
  struct Parts {
    TransformerSpec spec;
    TransformerWeights weights;
    Activations activations;
    KvCache cache;
  };

  PlannedTransformer(std::unique_ptr<const Parts> parts, const StepLimits& limits,
                     StepInputs inputs, Backend& backend, Communicator* communicator,
                     Communicator* stages)
      : parts_(std::move(parts)),
        limits_(limits),
        inputs_(std::move(inputs)),
        backend_(backend),
        stages_(stages) {
    if (parts_->spec.encoder.has_value()) {
      encoder_.emplace(*parts_->spec.encoder, *parts_->weights.encoder, std::span<const KvLayer>(),
                       parts_->activations, backend, communicator, stages);
    }
    if (parts_->spec.decoder.has_value()) {
      decoder_.emplace(*parts_->spec.decoder, *parts_->weights.decoder, parts_->cache.layers,
                       parts_->activations, backend, communicator, stages);
    }
    if (limits.max_input_tokens > 0) {
      long_input_.emplace(*parts_->spec.encoder, *parts_->weights.encoder, parts_->activations,
                          limits, inputs_, backend);
    }
  }

  LongInput* long_input() override { return long_input_.has_value() ? &*long_input_ : nullptr; }

  std::span<const std::unique_ptr<Buffer>> activations() const override {
    return parts_->activations.buffers;
  }
  std::span<const std::unique_ptr<Buffer>> cache() const override { return parts_->cache.buffers; }

  Tensor Encode(const EncoderBatch& batch) override {
    BEAMLINE_CHECK(encoder_.has_value() && !decoder_.has_value());
    const EncoderInputs inputs = inputs_.PutEncoderBatch(batch);
    const uint64_t shape = backend_.Records() ? EncoderShape(batch) : 0;
    return RunEncoder(batch, shape, [&] { return encoder_->Encode(inputs.tokens); });
  }

  Tensor EncodeMemory(const EncoderBatch& batch) override {
    BEAMLINE_CHECK(encoder_.has_value() && decoder_.has_value());
    const bool records = backend_.Records();
    const uint64_t shape = records ? PadEncoderBatch(batch, limits_, padded_inputs_) : 0;
    const EncoderInputs inputs = inputs_.PutEncoderBatch(records ? padded_inputs_ : batch);
    BEAMLINE_CHECK(inputs.slots != nullptr);
    return RunEncoder(batch, shape, [&] {
      const Tensor memory = Memory(inputs.tokens);
      if (spec().encoder->layers_after > 0) return memory;
      decoder_->StoreMemory(memory, inputs.slots);
      // Every decoder layer reads it, also those on later stages.
      if (!spec().decoder->ends()) stages_->Send(memory, stages_->rank() + 1);
      return memory;
    });
  }

  Tensor Decode(const StepBatch& batch, const DeviceEdits& edits) override {
    BEAMLINE_CHECK(decoder_.has_value());
    if (!spec().decoder->is_here()) return Tensor();  // later stages have the decoder
    if (!backend_.Records() || !IsDecodeStep(batch)) {
      ComputeLogits(inputs_.PutStepBatch(batch, edits, parts_->cache.layers));
    } else {
      const uint64_t shape = PadDecodeStep(batch, limits_, padded_);
      const DecoderInputs inputs = inputs_.PutStepBatch(padded_, edits, parts_->cache.layers);
      backend_.Replay(shape, [&] { ComputeLogits(inputs); });
    }
    if (!spec().decoder->ends()) return Tensor();
    const auto num_rows = static_cast<int64_t>(batch.logits_rows.size());
    return parts_->activations.logits.First(std::min<int64_t>(num_rows, limits_.head_rows()));
  }

  Tensor MoreLogits(int64_t first_row) override {
    if (!spec().decoder->ends()) return Tensor();
    return Logits(wanted_, first_row);
  }

  Tensor Pool(const EncoderBatch& batch, const Tensor& hidden, Pooling pooling,
              bool normalize) override {
    PoolParams pool;
    pool.pooling = pooling;
    pool.normalize = normalize;
    pool.hidden = hidden;
    pool.offsets = inputs_.PutOffsets(batch);
    pool.num_sequences = batch.num_sequences();
    pool.output = parts_->activations.pooled.First(pool.num_sequences);
    backend_.Pool(pool);
    return pool.output;
  }

  void CopyBlocks(std::span<const BlockCopy> copies) override {
    if (copies.empty()) return;
    for (const KvLayer& layer : parts_->cache.layers) backend_.CopyBlocks({layer, copies});
  }

  const TransformerSpec& spec() const override { return parts_->spec; }
  int64_t num_parameters() const override { return parts_->weights.num_parameters; }
  int64_t weight_bytes() const override { return parts_->weights.bytes; }

 private:
  // `work` returns the encoder's output, whose address is the same for every batch of this shape.
  template <typename Work>
  Tensor RunEncoder(const EncoderBatch& batch, uint64_t shape, const Work& work) {
    if (shape == 0) return work();
    backend_.Replay(shape, [&] { work(); });
    const Tensor& hidden = parts_->activations.hidden;
    return Tensor(hidden.data, hidden.dtype,
                  {static_cast<int64_t>(batch.token_ids.size()), spec().encoder->hidden_size});
  }

  // The encoder's last hidden states, or its output for the next stage. On stages after the
  // encoder's end, they are received from the previous stage.
  Tensor Memory(const PackedTokens& tokens) const {
    if (spec().encoder->is_here()) return encoder_->Encode(tokens);
    const Tensor& hidden = parts_->activations.hidden;
    const Tensor memory(hidden.data, hidden.dtype,
                        {tokens.rows.num_rows, spec().encoder->hidden_size});
    stages_->Receive(memory, stages_->rank() - 1);
    return memory;
  }

  void ComputeLogits(const DecoderInputs& inputs) {
    wanted_ = decoder_->Decode(inputs);
    if (spec().decoder->ends()) Logits(wanted_, 0);
  }

  // The logits of hidden's rows from first_row on, at most head_rows() rows.
  Tensor Logits(const Tensor& hidden, int64_t first_row) const {
    const int64_t num_rows = std::min<int64_t>(hidden.dim(0) - first_row, limits_.head_rows());
    MatMulParams head;
    head.x = hidden.Rows(first_row, num_rows);
    head.weight = parts_->weights.head.weight.get();
    head.bias = parts_->weights.head.bias;
    head.softcap = spec().logits_softcap;
    head.y = parts_->activations.logits.First(num_rows);
    head.y_owns_padding = true;
    if (num_rows > 0) backend_.MatMul(head);
    return head.y;
  }

  const std::unique_ptr<const Parts> parts_;  // on the heap, because the stacks refer to it
  const StepLimits limits_;
  StepInputs inputs_;
  StepBatch padded_;            // kept to reuse memory
  EncoderBatch padded_inputs_;  // kept to reuse memory
  Tensor wanted_;  // from the last Decode that was not replayed: rows with needed logits after the
                   // last layer
  Backend& backend_;
  Communicator* const stages_;
  std::optional<StackForward> encoder_;
  std::optional<StackForward> decoder_;
  std::optional<LongInput> long_input_;
};

absl::Status CheckPositive(const char* name, int32_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} is {}; it must be positive", name, value));
}

absl::Status CheckLimits(const TransformerSpec& spec, const StepLimits& limits, bool has_ranks) {
  BEAMLINE_RETURN_IF_ERROR(CheckPositive("max_batch_tokens", limits.max_batch_tokens));
  BEAMLINE_RETURN_IF_ERROR(CheckPositive("max_sequences", limits.max_sequences));
  BEAMLINE_RETURN_IF_ERROR(CheckPositive("block_size", limits.block_size));
  if (limits.max_input_tokens > 0 && (has_ranks || !spec.computes_in_pieces())) {
    return absl::InvalidArgumentError(fmt::format(
        "max_input_tokens is {}; it must be 0 for this model", limits.max_input_tokens));
  }
  if (!spec.decoder.has_value()) return absl::OkStatus();
  BEAMLINE_RETURN_IF_ERROR(CheckPositive("max_logits_rows", limits.max_logits_rows));
  return CheckPositive("num_blocks", limits.num_blocks);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(
    const TransformerSpec& described, const Checkpoint& checkpoint, const ModelTypes& types,
    const StepLimits& limits, Backend& backend, Communicator* communicator,
    const StagePart* stage) {
  BEAMLINE_RETURN_IF_ERROR(backend.SupportsPrecision(types.precision));
  const DType activation_dtype = backend.ActivationDType(types.precision.compute);
  const TransformerSpec spec = SpecIn(described, activation_dtype);
  BEAMLINE_RETURN_IF_ERROR(backend.SupportsHeadDim(spec.max_head_dim()));
  BEAMLINE_RETURN_IF_ERROR(backend.SupportsHiddenSize(spec.max_hidden_size()));
  BEAMLINE_RETURN_IF_ERROR(CheckLimits(spec, limits, communicator != nullptr || stage != nullptr));
  auto parts = std::make_unique<PlannedTransformer::Parts>();
  const Shard shard =
      communicator == nullptr ? Shard() : Shard{communicator->rank(), communicator->size()};
  const Stage layers = stage == nullptr ? DivideLayers(spec, 1).front() : stage->layers;
  parts->spec = SpecOf(SpecOf(spec, layers), shard);
  BEAMLINE_ASSIGN_OR_RETURN(parts->weights,
                            LoadWeights(spec, layers, shard, checkpoint, types, backend));
  BEAMLINE_ASSIGN_OR_RETURN(parts->activations,
                            PlanActivations(parts->spec, activation_dtype, limits, backend));
  if (spec.decoder.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(
        parts->cache, AllocateKvCache(*parts->spec.decoder, backend.CacheDType(types.precision),
                                      limits, backend));
  }
  BEAMLINE_ASSIGN_OR_RETURN(StepInputs inputs, StepInputs::Create(parts->spec, limits, backend));
  return std::make_unique<PlannedTransformer>(std::move(parts), limits, std::move(inputs), backend,
                                              communicator,
                                              stage == nullptr ? nullptr : stage->stages);
}

int64_t Transformer::BlockBytes(const TransformerSpec& spec, DType cache_dtype, int32_t block_size,
                                int32_t num_ranks) {
  if (!spec.decoder.has_value()) return 0;
  const StackSpec& decoder = *spec.decoder;
  return int64_t{2} * decoder.num_layers * HeldKvHeads(decoder.num_kv_heads, num_ranks) *
         block_size * decoder.head_dim * static_cast<int64_t>(SizeOf(cache_dtype));
}

int64_t Transformer::BufferBytes(const TransformerSpec& spec, DType activation_dtype,
                                 const StepLimits& limits) {
  return ActivationBytes(spec, activation_dtype, limits) + StepInputs::DeviceBytes(spec, limits);
}

}  // namespace beamline
