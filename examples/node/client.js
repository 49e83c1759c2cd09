// A client in Node.js: translates, streams, compares embeddings, and shows errors, deadlines and retries.
//
// usage: node client.js [ADDRESS]
//
// The default address is $BEAMLINE_ADDRESS, else 127.0.0.1:50051. If a name resolves to several servers,
// calls are distributed over them. Reads the .proto files; no code is generated.
'use strict';

const path = require('path');

const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');
const protobuf = require('protobufjs');

const PROTOS = path.join(__dirname, '..', '..', 'proto');
const MAX_ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 100;
const MAX_MESSAGE_BYTES = 64 << 20; // largest answer; gRPC's default is 4 MiB

const definition = protoLoader.loadSync('beamline/v1/inference.proto', {
  includeDirs: [PROTOS],
  keepCase: true, // the proto field names: max_new_tokens
  longs: Number,
  enums: String,
  oneofs: true,
});
const {Inference} = grpc.loadPackageDefinition(definition).beamline.v1;

// Messages in error details, which no method of the service refers to.
const details = new protobuf.Root();
details.resolvePath = (origin, target) => path.join(PROTOS, target); // it brings google/protobuf itself
details.loadSync(['google/rpc/status.proto', 'google/rpc/error_details.proto'], {keepCase: true});

function connect(address) {
  // Connects to every address of the name and round-robins the calls.
  return new Inference('dns:///' + address, grpc.credentials.createInsecure(), {
    'grpc.service_config': JSON.stringify({loadBalancingConfig: [{round_robin: {}}]}),
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  });
}

function after(ms) {
  return new Date(Date.now() + ms);
}

// Returns the answer of one call; throws its error.
function call(client, method, request, deadline) {
  return new Promise((resolve, reject) => {
    client[method](request, {deadline}, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

// A detail of a server error (google.rpc.BadRequest or RetryInfo), or undefined.
function detail(error, name) {
  const [bytes] = error.metadata ? error.metadata.get('grpc-status-details-bin') : [];
  if (!bytes) return undefined;
  const status = details.lookupType('google.rpc.Status').decode(bytes);
  const found = status.details.find((one) => one.type_url.endsWith('/' + name));
  return found && details.lookupType(name).decode(found.value);
}

// Retries a call after a temporary error: UNAVAILABLE, or RESOURCE_EXHAUSTED with a RetryInfo. All attempts
// share one deadline. Waits grow, have a random share, and end before the deadline.
async function callWithRetries(client, method, request, deadline) {
  let backoffMs = FIRST_BACKOFF_MS;
  for (let attempt = 1; ; ++attempt) {
    try {
      return await call(client, method, request, deadline);
    } catch (error) {
      const info = detail(error, 'google.rpc.RetryInfo');
      const mayPass =
        error.code === grpc.status.UNAVAILABLE || (error.code === grpc.status.RESOURCE_EXHAUSTED && info !== undefined);
      const delay = (info && info.retry_delay) || {};
      let waitMs = Math.max(backoffMs, Number(delay.seconds || 0) * 1000 + (delay.nanos || 0) / 1e6);
      waitMs = Math.ceil(waitMs * (1 + 0.25 * Math.random()));
      if (attempt === MAX_ATTEMPTS || !mayPass || after(waitMs) > deadline) throw error;
      console.error(`${error.details}; again in ${waitMs} ms`);
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      backoffMs *= 2;
    }
  }
}

async function translate(client) {
  const request = {model: 'translate-en-de', prompt: {text: 'Open the file.'}, beam: {width: 4}};
  const response = await callWithRetries(client, 'Generate', request, after(30000));
  console.log('translated:', response.sequences[0].text);
}

// Prints a text as it is generated. To stop early, stream.cancel() also ends the call on the server.
function stream(client) {
  const request = {
    model: 'write-en',
    prompt: {text: 'Package: hello\nSynopsis:'},
    greedy: {},
    limits: {max_new_tokens: 24},
  };
  return new Promise((resolve, reject) => {
    const messages = client.GenerateStream(request, {deadline: after(30000)});
    messages.on('data', (message) => {
      for (const delta of message.deltas || []) process.stdout.write(delta.text || '');
      if (message.end) console.log(`\n${message.end.usage.generated_tokens} tokens`);
    });
    messages.on('error', reject);
    messages.on('end', resolve);
  });
}

// Finds the two most similar texts.
async function embed(client) {
  const texts = ['edit photos', 'an image manipulation program', 'a mail server'];
  const request = {model: 'embed-en', inputs: texts.map((text) => ({text}))};
  const {embeddings} = await callWithRetries(client, 'Encode', request, after(30000));
  let best = {similarity: -2};
  for (let i = 0; i < texts.length; ++i) {
    for (let j = 0; j < i; ++j) {
      const similarity = cosine(embeddings[i].values, embeddings[j].values);
      if (similarity > best.similarity) best = {similarity, first: texts[j], second: texts[i]};
    }
  }
  console.log(`closest: ${best.first}, ${best.second} (cosine ${best.similarity.toFixed(4)})`);
}

function cosine(one, other) {
  const dot = (left, right) => left.reduce((sum, value, i) => sum + value * right[i], 0);
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other));
}

// Sends a request that the server refuses, and prints the field and the reason.
async function refuse(client) {
  const request = {model: 'write-en', prompt: {text: 'Hello'}, limits: {max_new_tokens: 0}};
  try {
    await call(client, 'Generate', request, after(30000));
  } catch (error) {
    if (error.code !== grpc.status.INVALID_ARGUMENT) throw error;
    for (const violation of (detail(error, 'google.rpc.BadRequest') || {field_violations: []}).field_violations) {
      console.log(`refused: ${violation.field}: ${violation.description}`);
    }
    return;
  }
  throw new Error('not refused');
}

// Makes a call with a deadline that is too short. (A stream would end with what there is instead.)
async function expire(client) {
  try {
    await call(client, 'Generate', {model: 'write-en', prompt: {text: 'Package: hello'}}, after(1));
  } catch (error) {
    if (error.code !== grpc.status.DEADLINE_EXCEEDED) throw error;
    console.log('late: no answer within 1 ms');
    return;
  }
  throw new Error('not late');
}

async function main() {
  const client = connect(process.argv[2] || process.env.BEAMLINE_ADDRESS || '127.0.0.1:50051');
  try {
    for (const show of [translate, stream, embed, refuse, expire]) await show(client);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  } finally {
    client.close();
  }
}

main();
