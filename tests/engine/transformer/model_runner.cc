#include "tests/engine/transformer/model_runner.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/loading/make_backend.h"
#include "engine/loading/make_ranks.h"
#include "engine/transformer/float_conversion.h"
#include "engine/transformer/ranked_transformer.h"
#include "tests/engine/test_device.h"
#include "tests/kernels/test_gpu_memory.h"
#include "tests/test_seed.h"

namespace beamline {
namespace {

// Block tables as one rectangle; the rows' ends hold a block that no length reaches.
int32_t FillTables(const std::vector<const std::vector<int32_t>*>& rows,
                   std::vector<int32_t>& tables) {
  size_t width = 0;
  for (const auto* row : rows) width = std::max(width, row->size());
  for (const auto* row : rows) {
    tables.insert(tables.end(), row->begin(), row->end());
    tables.resize(tables.size() + width - row->size(), 0);
  }
  return static_cast<int32_t>(width);
}

}  // namespace

ModelRunner::ModelRunner() { random_.seed(TestSeed()); }

absl::StatusOr<std::unique_ptr<ModelRunner>> ModelRunner::Open(const std::string& folder,
                                                               const Precision& precision,
                                                               int num_ranks, int num_stages) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner());
  BEAMLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(folder));
  BEAMLINE_ASSIGN_OR_RETURN(runner->description_, DescribeModel(*checkpoint));
  runner->limits_.max_logits_rows = 4096;
  runner->limits_.num_blocks = 4096;
  runner->limits_.block_size = 4;
  BEAMLINE_RETURN_IF_ERROR(runner->MakeTransformer(*checkpoint, precision, num_ranks, num_stages));
  runner->free_blocks_.resize(runner->limits_.num_blocks);
  std::iota(runner->free_blocks_.begin(), runner->free_blocks_.end(), 0);
  std::shuffle(runner->free_blocks_.begin(), runner->free_blocks_.end(), runner->random_);
  return runner;
}

absl::Status ModelRunner::MakeTransformer(const Checkpoint& checkpoint, const Precision& precision,
                                          int num_ranks, int num_stages) {
  const TransformerSpec& spec = description_.spec;
  const ModelNeeds needs = {precision, spec.max_head_dim(), spec.max_hidden_size()};
  if (num_ranks * num_stages == 1) {
    BEAMLINE_ASSIGN_OR_RETURN(ChosenBackend chosen,
                              MakeBackend(TestDevice(), needs, {}, kTestGpuMemory));
    backend_ = std::move(chosen.backend);
    BEAMLINE_ASSIGN_OR_RETURN(transformer_,
                              Transformer::Create(spec, checkpoint, precision, limits_, *backend_));
    return absl::OkStatus();
  }
  const std::vector<std::string> devices = RankDevices(num_ranks * num_stages);
  BEAMLINE_ASSIGN_OR_RETURN(auto ranked, MakeRanks(devices, needs, {}, kTestGpuMemory, num_stages));
  BEAMLINE_ASSIGN_OR_RETURN(transformer_, RankedTransformer::Create(spec, checkpoint, precision,
                                                                    limits_, ranked->ranks()));
  backend_ = std::move(ranked);
  return absl::OkStatus();
}

float ModelRunner::BatchTolerance(float otherwise) const {
  return beamline::BatchTolerance(backend_->Name(), otherwise);
}

EncoderBatch ModelRunner::Pack(std::span<const TokenIds> sequences,
                               std::span<const TokenIds> type_ids) const {
  EncoderBatch batch;
  batch.offsets = {0};
  for (const TokenIds& ids : sequences) {
    batch.token_ids.insert(batch.token_ids.end(), ids.begin(), ids.end());
    batch.offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
  }
  for (const TokenIds& ids : type_ids) {
    batch.type_ids.insert(batch.type_ids.end(), ids.begin(), ids.end());
  }
  return batch;
}

Matrix ModelRunner::Fetch(const Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.num_elements());
  const size_t row_bytes = static_cast<size_t>(tensor.dim(-1)) * SizeOf(tensor.dtype);
  std::vector<std::byte> stored(count * SizeOf(tensor.dtype)), converted;
  for (int64_t row = 0; row < tensor.num_rows(); ++row) {
    const auto offset = static_cast<size_t>(row * tensor.row_stride) * SizeOf(tensor.dtype);
    BEAMLINE_CHECK(
        backend_->CopyToHost(tensor.as<char>() + offset, stored.data() + row * row_bytes, row_bytes)
            .ok());
  }
  AppendConverted(stored.data(), count, tensor.dtype, DType::kFloat32, converted);
  Matrix matrix{tensor.dim(-1), std::vector<float>(count)};
  std::memcpy(matrix.values.data(), converted.data(), converted.size());
  return matrix;
}

Matrix ModelRunner::Encode(std::span<const TokenIds> sequences,
                           std::span<const TokenIds> type_ids) {
  return Fetch(transformer_->Encode(Pack(sequences, type_ids)));
}

Matrix ModelRunner::Embed(std::span<const TokenIds> sequences) {
  const EncoderBatch batch = Pack(sequences, {});
  const Tensor hidden = transformer_->Encode(batch);
  return Fetch(transformer_->Pool(batch, hidden, description_.encoding.pooling,
                                  description_.encoding.normalize));
}

void ModelRunner::Grow(std::vector<int32_t>& blocks, int64_t num_tokens) {
  while (static_cast<int64_t>(blocks.size()) * limits_.block_size < num_tokens) {
    BEAMLINE_CHECK(!free_blocks_.empty());
    blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
}

int32_t ModelRunner::Slot(const std::vector<int32_t>& blocks, int32_t position) const {
  return blocks[position / limits_.block_size] * limits_.block_size + position % limits_.block_size;
}

Matrix ModelRunner::EncodeMemory(std::span<RunnerSequence> sequences) {
  std::vector<TokenIds> sources;
  for (const RunnerSequence& sequence : sequences) sources.push_back(sequence.source);
  EncoderBatch batch = Pack(sources, {});
  for (RunnerSequence& sequence : sequences) {
    const auto length = static_cast<int32_t>(sequence.source.size());
    Grow(sequence.memory_blocks, length);
    for (int32_t i = 0; i < length; ++i) batch.slots.push_back(Slot(sequence.memory_blocks, i));
  }
  return Fetch(transformer_->EncodeMemory(batch));
}

bool ModelRunner::Step(std::span<RunnerSequence> sequences, int32_t max_tokens, bool last_only) {
  StepBatch batch;
  batch.query_offsets = {0};
  std::vector<RunnerSequence*> rows_of;  // of each wanted row
  std::vector<const std::vector<int32_t>*> tables, memory_tables;
  for (RunnerSequence& sequence : sequences) {
    const int32_t begin = sequence.num_computed;
    const int32_t end = std::min(begin + max_tokens, static_cast<int32_t>(sequence.tokens.size()));
    if (begin == end) continue;
    Grow(sequence.blocks, end);
    for (int32_t position = begin; position < end; ++position) {
      if (!last_only || position + 1 == end) {
        batch.logits_rows.push_back(static_cast<int32_t>(batch.token_ids.size()));
        rows_of.push_back(&sequence);
      }
      batch.token_ids.push_back(sequence.tokens[position]);
      batch.positions.push_back(position);
      batch.slots.push_back(Slot(sequence.blocks, position));
    }
    batch.query_offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
    batch.context_lengths.push_back(end);
    batch.memory_lengths.push_back(static_cast<int32_t>(sequence.source.size()));
    tables.push_back(&sequence.blocks);
    memory_tables.push_back(&sequence.memory_blocks);
    sequence.num_computed = end;
  }
  if (tables.empty()) return false;
  batch.max_blocks = FillTables(tables, batch.block_tables);
  batch.max_memory_blocks = FillTables(memory_tables, batch.memory_tables);
  const Matrix logits = Fetch(transformer_->Decode(batch));
  for (size_t i = 0; i < rows_of.size(); ++i) {
    Matrix& target = rows_of[i]->logits;
    target.width = logits.width;
    const auto row = logits.row(static_cast<int64_t>(i));
    target.values.insert(target.values.end(), row.begin(), row.end());
  }
  return true;
}

void ModelRunner::MoveBlocks(RunnerSequence& sequence) {
  std::vector<BlockCopy> copies;
  for (std::vector<int32_t>* blocks : {&sequence.blocks, &sequence.memory_blocks}) {
    for (int32_t& block : *blocks) {
      copies.push_back({block, free_blocks_.back()});
      free_blocks_.pop_back();
      block = copies.back().target;
    }
  }
  transformer_->CopyBlocks(copies);
}

}  // namespace beamline
