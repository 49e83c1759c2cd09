package example;

import beamline.v1.InferenceGrpc;
import beamline.v1.InferenceOuterClass.Beam;
import beamline.v1.InferenceOuterClass.Embedding;
import beamline.v1.InferenceOuterClass.EncodeRequest;
import beamline.v1.InferenceOuterClass.EncodeResponse;
import beamline.v1.InferenceOuterClass.GenerateRequest;
import beamline.v1.InferenceOuterClass.GenerateResponse;
import beamline.v1.InferenceOuterClass.GenerateStreamResponse;
import beamline.v1.InferenceOuterClass.Greedy;
import beamline.v1.InferenceOuterClass.Limits;
import beamline.v1.InferenceOuterClass.Prompt;
import beamline.v1.InferenceOuterClass.SequenceDelta;
import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import google.rpc.ErrorDetails.BadRequest;
import google.rpc.ErrorDetails.RetryInfo;
import google.rpc.StatusOuterClass;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * A client in Java: translates, streams, compares embeddings, and shows errors, deadlines and retries.
 *
 * <p>Usage: Client [ADDRESS]. The default address is $BEAMLINE_ADDRESS, else 127.0.0.1:50051. If a name
 * resolves to several servers, calls are distributed over them.
 */
public final class Client {
  private static final int MAX_ATTEMPTS = 5;
  private static final long FIRST_BACKOFF_MS = 100;
  private static final int MAX_MESSAGE_BYTES = 64 << 20; // largest answer; gRPC's default is 4 MiB
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private final InferenceGrpc.InferenceBlockingStub stub;

  private Client(ManagedChannel channel) {
    stub = InferenceGrpc.newBlockingStub(channel);
  }

  public static void main(String[] arguments) throws InterruptedException {
    String address = System.getenv().getOrDefault("BEAMLINE_ADDRESS", "127.0.0.1:50051");
    if (arguments.length > 0) {
      address = arguments[0];
    }
    // Connects to every address of the name and round-robins the calls.
    ManagedChannel channel =
        ManagedChannelBuilder.forTarget("dns:///" + address)
            .defaultLoadBalancingPolicy("round_robin")
            .maxInboundMessageSize(MAX_MESSAGE_BYTES)
            .usePlaintext()
            .build();
    int exitStatus = 0;
    try {
      Client client = new Client(channel);
      client.translate();
      client.stream();
      client.embed();
      client.refuse();
      client.expire();
    } catch (StatusRuntimeException error) {
      System.err.println(error.getStatus());
      exitStatus = 1;
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
    System.exit(exitStatus);
  }

  /** Uses one deadline for all attempts of a call. */
  private void translate() {
    GenerateRequest request =
        GenerateRequest.newBuilder()
            .setModel("translate-en-de")
            .setPrompt(text("Open the file."))
            .setBeam(Beam.newBuilder().setWidth(4))
            .build();
    Deadline deadline = Deadline.after(30, TimeUnit.SECONDS);
    GenerateResponse response =
        withRetries(deadline, () -> stub.withDeadline(deadline).generate(request));
    System.out.println("translated: " + response.getSequences(0).getText());
  }

  /** Prints a text as it is generated. */
  private void stream() {
    GenerateRequest request =
        GenerateRequest.newBuilder()
            .setModel("write-en")
            .setPrompt(text("Package: hello\nSynopsis:"))
            .setGreedy(Greedy.getDefaultInstance())
            .setLimits(Limits.newBuilder().setMaxNewTokens(24))
            .build();
    // If the loop is left early, cancelling the context also ends the call on the server.
    try (Context.CancellableContext context = Context.current().withCancellation()) {
      context.run(
          () -> {
            Iterator<GenerateStreamResponse> messages =
                stub.withDeadlineAfter(30, TimeUnit.SECONDS).generateStream(request);
            while (messages.hasNext()) {
              GenerateStreamResponse message = messages.next();
              for (SequenceDelta delta : message.getDeltasList()) {
                System.out.print(delta.getText());
              }
              if (message.hasEnd()) {
                System.out.printf("%n%d tokens%n", message.getEnd().getUsage().getGeneratedTokens());
              }
            }
          });
    }
  }

  /** Finds the two most similar texts. */
  private void embed() {
    List<String> texts = List.of("edit photos", "an image manipulation program", "a mail server");
    EncodeRequest.Builder request = EncodeRequest.newBuilder().setModel("embed-en");
    texts.forEach(one -> request.addInputs(text(one)));
    Deadline deadline = Deadline.after(30, TimeUnit.SECONDS);
    EncodeResponse response =
        withRetries(deadline, () -> stub.withDeadline(deadline).encode(request.build()));
    double best = -2;
    int first = 0;
    int second = 0;
    for (int i = 0; i < texts.size(); ++i) {
      for (int j = 0; j < i; ++j) {
        double similarity = cosine(response.getEmbeddings(i), response.getEmbeddings(j));
        if (similarity > best) {
          best = similarity;
          first = j;
          second = i;
        }
      }
    }
    System.out.printf(
        Locale.ROOT, "closest: %s, %s (cosine %.4f)%n", texts.get(first), texts.get(second), best);
  }

  private static double cosine(Embedding one, Embedding other) {
    double product = 0;
    double oneSquare = 0;
    double otherSquare = 0;
    for (int i = 0; i < one.getValuesCount(); ++i) {
      product += (double) one.getValues(i) * other.getValues(i);
      oneSquare += (double) one.getValues(i) * one.getValues(i);
      otherSquare += (double) other.getValues(i) * other.getValues(i);
    }
    return product / Math.sqrt(oneSquare * otherSquare);
  }

  /** Sends a request that the server refuses, and prints the field and the reason. */
  private void refuse() {
    GenerateRequest request =
        GenerateRequest.newBuilder()
            .setModel("write-en")
            .setPrompt(text("Hello"))
            .setLimits(Limits.newBuilder().setMaxNewTokens(0))
            .build();
    try {
      stub.withDeadlineAfter(30, TimeUnit.SECONDS).generate(request);
      throw new IllegalStateException("not refused");
    } catch (StatusRuntimeException error) {
      if (error.getStatus().getCode() != Status.Code.INVALID_ARGUMENT) {
        throw error;
      }
      for (BadRequest.FieldViolation violation :
          detail(error, BadRequest.class)
              .orElse(BadRequest.getDefaultInstance())
              .getFieldViolationsList()) {
        System.out.println("refused: " + violation.getField() + ": " + violation.getDescription());
      }
    }
  }

  /** Makes a call with a deadline that is too short. (A stream would end with what there is instead.) */
  private void expire() {
    GenerateRequest request =
        GenerateRequest.newBuilder()
            .setModel("write-en")
            .setPrompt(text("Package: hello"))
            .build();
    try {
      stub.withDeadlineAfter(1, TimeUnit.MILLISECONDS).generate(request);
      throw new IllegalStateException("not late");
    } catch (StatusRuntimeException error) {
      if (error.getStatus().getCode() != Status.Code.DEADLINE_EXCEEDED) {
        throw error;
      }
      System.out.println("late: no answer within 1 ms");
    }
  }

  private static Prompt text(String prompt) {
    return Prompt.newBuilder().setText(prompt).build();
  }

  /**
   * Retries a call after a temporary error: UNAVAILABLE, or RESOURCE_EXHAUSTED with a RetryInfo. Waits
   * grow, have a random share, and end before the deadline.
   */
  private static <T> T withRetries(Deadline deadline, Supplier<T> call) {
    long backoffMs = FIRST_BACKOFF_MS;
    for (int attempt = 1; ; ++attempt) {
      try {
        return call.get();
      } catch (StatusRuntimeException error) {
        Optional<RetryInfo> info = detail(error, RetryInfo.class);
        Status.Code code = error.getStatus().getCode();
        boolean mayPass =
            code == Status.Code.UNAVAILABLE
                || (code == Status.Code.RESOURCE_EXHAUSTED && info.isPresent());
        long waitMs = backoffMs;
        if (info.isPresent()) {
          com.google.protobuf.Duration delay = info.get().getRetryDelay();
          waitMs = Math.max(waitMs, delay.getSeconds() * 1000 + delay.getNanos() / 1_000_000);
        }
        waitMs += (long) (ThreadLocalRandom.current().nextDouble() * 0.25 * waitMs);
        if (attempt == MAX_ATTEMPTS
            || !mayPass
            || deadline.timeRemaining(TimeUnit.MILLISECONDS) < waitMs) {
          throw error;
        }
        System.err.printf("%s; again in %d ms%n", error.getStatus().getDescription(), waitMs);
        try {
          TimeUnit.MILLISECONDS.sleep(waitMs);
        } catch (InterruptedException interrupted) {
          Thread.currentThread().interrupt();
          throw error;
        }
        backoffMs *= 2;
      }
    }
  }

  /** A detail of a server error: google.rpc.BadRequest or RetryInfo. */
  private static <T extends com.google.protobuf.Message> Optional<T> detail(
      StatusRuntimeException error, Class<T> kind) {
    Metadata trailers = error.getTrailers();
    byte[] bytes = trailers == null ? null : trailers.get(DETAILS);
    if (bytes == null) {
      return Optional.empty();
    }
    try {
      for (Any one : StatusOuterClass.Status.parseFrom(bytes).getDetailsList()) {
        if (one.is(kind)) {
          return Optional.of(one.unpack(kind));
        }
      }
    } catch (InvalidProtocolBufferException notDetails) {
      // The error of a gateway, for example, has only a code and a message.
    }
    return Optional.empty();
  }
}
