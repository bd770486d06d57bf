// What the programs of this folder share: a step is done, and one line says what came of it.
//
//     reserve -> {"id":1,"body":"hello"}
//     touch !! NOT_FOUND
//
// A transcript holds only what the library handed to its user.
'use strict'

const [host, port] = [process.argv[2], Number(process.argv[3])]

const WORD = /\b[A-Z]{3,}(_[A-Z]+)*\b/

function plain (value) {
  if (Buffer.isBuffer(value)) return value.toString('latin1')
  if (Array.isArray(value)) return value.map(plain)
  if (value && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]))
  }
  return value === undefined ? null : value
}

// A dictionary is told a key a line, so that what varies can be masked by its key.
function show (name, value) {
  const told = plain(value)
  if (told && typeof told === 'object' && !Array.isArray(told) && Object.keys(told).length > 4) {
    console.log(`${name} ->`)
    for (const [key, one] of Object.entries(told)) console.log(`  ${key}: ${one}`)
  } else {
    console.log(`${name} -> ${JSON.stringify(told)}`)
  }
  return value
}

function fail (name, error) {
  const said = String(error.code || '') + ' ' + String(error.message || error)
  console.log(`${name} !! ${(said.match(WORD) || [said])[0]}`)
}

async function step (name, action) {
  try {
    return show(name, await action())
  } catch (error) {
    fail(name, error)
    return undefined
  }
}

// The library's promise must not settle within the time: a reserve that waits.
async function pending (name, promise, ms) {
  const quiet = await Promise.race([promise.then(() => false),
    new Promise(resolve => setTimeout(resolve, ms, true))])
  console.log(`${name} -> ${quiet ? 'waits' : 'does not wait'}`)
}

// A library that hangs must end as a failure, not hang the test.
setTimeout(() => {
  console.log('hangs')
  process.exit(1)
}, 20000).unref()

// { a: '1' } of a YAML dictionary, or [ 'a' ] of a YAML list.
function yaml (text) {
  const rows = text.trim().split('\n').slice(1)
  return rows.every(row => row.startsWith('- '))
    ? rows.map(row => row.slice(2))
    : Object.fromEntries(rows.map(row => row.split(/: (.*)/).slice(0, 2)))
}

module.exports = { host, port, step, show, pending, yaml }
