// A client in Go: translates, streams, compares embeddings, and shows errors, deadlines and retries.
//
// usage: client [ADDRESS]
//
// The default address is $BEAMLINE_ADDRESS, else 127.0.0.1:50051. If a name resolves to several
// servers, calls are distributed over them.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "beamline.example/beamlinev1"
)

const (
	maxAttempts     = 5
	firstBackoff    = 100 * time.Millisecond
	maxMessageBytes = 64 << 20 // largest answer; gRPC's default is 4 MiB
)

func main() {
	address := os.Getenv("BEAMLINE_ADDRESS")
	if len(os.Args) > 1 {
		address = os.Args[1]
	} else if address == "" {
		address = "127.0.0.1:50051"
	}
	if err := run(address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string) error {
	// Connects to every address of the name and round-robins the calls.
	connection, err := grpc.Dial("dns:///"+address, grpc.WithInsecure(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := pb.NewInferenceClient(connection)
	for _, show := range []func(pb.InferenceClient) error{translate, stream, embed, refuse, expire} {
		if err := show(client); err != nil {
			return err
		}
	}
	return nil
}

func text(prompt string) *pb.Prompt {
	return &pb.Prompt{Kind: &pb.Prompt_Text{Text: prompt}}
}

// translate uses one deadline for all attempts of a call.
func translate(client pb.InferenceClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	width := int32(4)
	request := &pb.GenerateRequest{
		Model:    "translate-en-de",
		Prompt:   text("Open the file."),
		Decoding: &pb.GenerateRequest_Beam{Beam: &pb.Beam{Width: &width}},
	}
	var response *pb.GenerateResponse
	err := withRetries(ctx, func() (err error) {
		response, err = client.Generate(ctx, request)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Println("translated:", response.Sequences[0].Text)
	return nil
}

// stream prints a text as it is generated.
func stream(client pb.InferenceClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel() // an early return also ends the call on the server
	tokens := int32(24)
	messages, err := client.GenerateStream(ctx, &pb.GenerateRequest{
		Model:    "write-en",
		Prompt:   text("Package: hello\nSynopsis:"),
		Decoding: &pb.GenerateRequest_Greedy{Greedy: &pb.Greedy{}},
		Limits:   &pb.Limits{MaxNewTokens: &tokens},
	})
	if err != nil {
		return err
	}
	for {
		message, err := messages.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, delta := range message.Deltas {
			fmt.Print(delta.Text)
		}
		if message.End != nil {
			fmt.Printf("\n%d tokens\n", message.End.Usage.GeneratedTokens)
		}
	}
}

// embed finds the two most similar texts.
func embed(client pb.InferenceClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	texts := []string{"edit photos", "an image manipulation program", "a mail server"}
	request := &pb.EncodeRequest{Model: "embed-en"}
	for _, one := range texts {
		request.Inputs = append(request.Inputs, text(one))
	}
	var response *pb.EncodeResponse
	err := withRetries(ctx, func() (err error) {
		response, err = client.Encode(ctx, request)
		return err
	})
	if err != nil {
		return err
	}
	best, first, second := -2.0, 0, 0
	for i := range texts {
		for j := 0; j < i; j++ {
			similarity := cosine(response.Embeddings[i].Values, response.Embeddings[j].Values)
			if similarity > best {
				best, first, second = similarity, j, i
			}
		}
	}
	fmt.Printf("closest: %s, %s (cosine %.4f)\n", texts[first], texts[second], best)
	return nil
}

func cosine(one, other []float32) float64 {
	var product, oneSquare, otherSquare float64
	for i := range one {
		product += float64(one[i]) * float64(other[i])
		oneSquare += float64(one[i]) * float64(one[i])
		otherSquare += float64(other[i]) * float64(other[i])
	}
	return product / math.Sqrt(oneSquare*otherSquare)
}

// refuse sends a request that the server refuses, and prints the field and the reason.
func refuse(client pb.InferenceClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tokens := int32(0)
	_, err := client.Generate(ctx, &pb.GenerateRequest{
		Model:  "write-en",
		Prompt: text("Hello"),
		Limits: &pb.Limits{MaxNewTokens: &tokens},
	})
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range bad.FieldViolations {
				fmt.Printf("refused: %s: %s\n", violation.Field, violation.Description)
			}
		}
	}
	if status.Code(err) != codes.InvalidArgument {
		return fmt.Errorf("not refused: %v", err)
	}
	return nil
}

// expire makes a call with a deadline that is too short. (A stream would end with what there is instead.)
func expire(client pb.InferenceClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := client.Generate(ctx, &pb.GenerateRequest{Model: "write-en", Prompt: text("Package: hello")})
	if status.Code(err) != codes.DeadlineExceeded {
		return fmt.Errorf("not late: %v", err)
	}
	fmt.Println("late: no answer within 1 ms")
	return nil
}

// withRetries retries a call after a temporary error: UNAVAILABLE, or RESOURCE_EXHAUSTED with a RetryInfo.
// Waits grow, have a random share, and end with the context.
func withRetries(ctx context.Context, call func() error) error {
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		err := call()
		askedFor, asks := retryDelay(err)
		code := status.Code(err)
		if attempt == maxAttempts || (code != codes.Unavailable && !(code == codes.ResourceExhausted && asks)) {
			return err
		}
		wait := backoff
		if askedFor > wait {
			wait = askedFor
		}
		wait += time.Duration(rand.Float64() * 0.25 * float64(wait))
		if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < wait {
			return err
		}
		fmt.Fprintf(os.Stderr, "%v; again in %d ms\n", status.Convert(err).Message(), wait.Milliseconds())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		backoff *= 2
	}
}

// retryDelay is the wait that the server asks for, if any.
func retryDelay(err error) (time.Duration, bool) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration(), true
		}
	}
	return 0, false
}
