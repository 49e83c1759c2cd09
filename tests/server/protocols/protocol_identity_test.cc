// Every method of every other protocol asks who calls before it looks at the request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "inference/grpc_service.pb.h"
#include "tei/v1/tei.pb.h"
#include "tests/scratch_path.h"
#include "tests/server/service_fixture.h"

namespace beamline::protocol_identity_test {
namespace {

using google::protobuf::MethodDescriptor;
using grpc::StatusCode;

// Of the tokens "of alice" and "of ops".
constexpr char kIdentities[] =
    "alice inference sha256:3e8731c9028cd22c0ce85bae41b97c522dd65b236b337b6eee993ed194dd2e5c\n"
    "ops admin sha256:2e5fdd5af237abf0c849d27c8db4077a857609bd2e2e1171759e53c367be32ea\n";

std::vector<const MethodDescriptor*> Methods() {
  std::vector<const MethodDescriptor*> methods;
  for (const auto* file : {inference::ModelInferRequest::descriptor()->file(),
                           tei::v1::EmbedRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back(file->service(s)->method(m));
      }
    }
  }
  return methods;
}

class ProtocolIdentityTest : public ServiceTest {
 protected:
  // Of one empty message.
  StatusCode Call(const MethodDescriptor& method, const std::string& token) {
    grpc::GenericStub stub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    const auto call = stub.PrepareCall(
        &context, "/" + method.service()->full_name() + "/" + method.name(), &queue);
    void* tag = nullptr;
    bool ok = false;
    const auto wait = [&] { return queue.Next(&tag, &ok) && ok; };
    call->StartCall(this);
    bool open = wait();
    const grpc::Slice nothing("");
    if (open) {
      call->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), this);
      wait();
    }
    grpc::ByteBuffer answer;
    do {
      call->Read(&answer, this);
    } while (wait());
    grpc::Status status;
    call->Finish(&status, this);
    queue.Next(&tag, &ok);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    return status.error_code();
  }
};

TEST_F(ProtocolIdentityTest, EachMethodAsksWhoCalls) {
  ServerConfig config;
  config.identity_file = ScratchPath("protocol_identities");
  std::ofstream(config.identity_file) << kIdentities;
  Serve(config);
  // What may be asked with any right, and what administrators alone may.
  const std::set<std::string> questions = {"ServerLive",      "ServerReady",     "ModelReady",
                                           "ServerMetadata",  "ModelMetadata",   "ModelConfig",
                                           "ModelStatistics", "RepositoryIndex", "Info"};
  const std::set<std::string> administration = {"RepositoryModelLoad", "RepositoryModelUnload"};
  const auto methods = Methods();
  EXPECT_EQ(methods.size(), 29u);
  for (const MethodDescriptor* method : methods) {
    SCOPED_TRACE(method->full_name());
    const std::string& name = method->name();
    EXPECT_EQ(Call(*method, ""), StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(Call(*method, "of nobody"), StatusCode::UNAUTHENTICATED);
    const StatusCode alice = Call(*method, "of alice"), ops = Call(*method, "of ops");
    EXPECT_NE(alice, StatusCode::UNAUTHENTICATED);
    EXPECT_NE(ops, StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(alice == StatusCode::PERMISSION_DENIED, administration.contains(name));
    EXPECT_EQ(ops == StatusCode::PERMISSION_DENIED,
              !administration.contains(name) && !questions.contains(name));
  }
  EXPECT_EQ(engine_->num_requests(), 0u);
  EXPECT_GE(Counter("beamline_rejected_total", "reason=unauthenticated"), 58);
}

}  // namespace
}  // namespace beamline::protocol_identity_test
