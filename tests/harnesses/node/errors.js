// What of kafkajs's errors travels.
'use strict'

class Unsupported extends Error {}

// kafkajs asks for one producer id and epoch in its life, so it is finished when these are refused.
const FATAL = ['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED', 'INVALID_PRODUCER_ID_MAPPING', 'UNKNOWN_PRODUCER_ID']

// The error that a broker answered, under what kafkajs wraps around it.
function root(error) {
  if (Array.isArray(error.errors) && error.errors.length) return root(error.errors[0])
  return error.type === undefined && error.cause instanceof Error ? root(error.cause) : error
}

function kindOf(error, inner) {
  if (FATAL.includes(inner.type)) return 'fatal'
  if (inner.name === 'KafkaJSRequestTimeoutError') return 'timeout'
  return error.retriable ? 'retriable' : 'refused'
}

function faultOf(error) {
  if (error instanceof Unsupported) {
    return { kind: 'refused', name: 'UNSUPPORTED_CALL', code: null, message: error.message }
  }
  console.error(error)
  const inner = root(error)
  return {
    kind: kindOf(error, inner),
    name: inner.type || inner.name,
    code: typeof inner.code === 'number' ? inner.code : null,
    message: inner.message,
  }
}

module.exports = { Unsupported, faultOf }
