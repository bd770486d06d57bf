<?php
/*
 * php-pda-pheanstalk: jobs as objects, null for "not there" where it knows of it, else exceptions.
 * Prints a line for each step; see node/story.js for their form.
 */
require 'Pheanstalk/autoload.php';

use Pheanstalk\Contract\ResponseInterface;
use Pheanstalk\Job;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;

[, $host, $port] = $argv;

function plain($value)
{
    if ($value instanceof Job) {
        return ['id' => $value->getId(), 'body' => bin2hex($value->getData())];
    }
    return $value instanceof Pheanstalk ? 'itself' : $value;
}

function step(string $name, Closure $action)
{
    try {
        $value = $action();
    } catch (\Pheanstalk\Exception $error) {
        $class = (new ReflectionClass($error))->getShortName();
        preg_match('/\b[A-Z]{3,}(_[A-Z]+)*\b/', $error->getMessage(), $word);
        echo "$name !! $class ", $word[0] ?? $error->getMessage(), "\n";
        return null;
    }
    if ($value instanceof ResponseInterface) {
        echo "$name ->\n";
        foreach ((array)$value as $key => $one) {
            echo "  $key: $one\n";
        }
    } else {
        echo "$name -> ", json_encode(plain($value)), "\n";
    }
    return $value;
}

function produce(Pheanstalk $producer): void
{
    step('use', fn() => $producer->useTube('mail'));
    step('used', fn() => $producer->listTubeUsed(true));
    step('put', fn() => $producer->put('hello', 3, 0, 30));
    step('put urgent', fn() => $producer->put("\0\r\n\xff", 1, 0, 30));
    step('put delayed', fn() => $producer->put('later', 2, 3600, 30));
    step('put empty', fn() => $producer->put('', 4, 0, 0));
    step('put too big', fn() => $producer->put(str_repeat('x', 65536)));
}

function look(Pheanstalk $client): void
{
    step('peek', fn() => $client->peek(new JobId(1)));
    step('peek none', fn() => $client->peek(new JobId(99)));
    step('peek ready', fn() => $client->peekReady());
    step('peek delayed', fn() => $client->peekDelayed());
    step('peek buried', fn() => $client->peekBuried());
    step('stats-job', fn() => $client->statsJob(new JobId(4)));
    step('stats-job none', fn() => $client->statsJob(new JobId(99)));
    step('stats-tube', fn() => $client->statsTube('mail'));
    step('stats-tube none', fn() => $client->statsTube('nowhere'));
    step('stats', fn() => $client->stats());
    step('list-tubes', function () use ($client) {
        $tubes = $client->listTubes();
        sort($tubes);
        return $tubes;
    });
}

function consume(Pheanstalk $worker, Pheanstalk $producer): void
{
    step('watch only', fn() => $worker->watchOnly('mail'));
    step('watched', fn() => $worker->listTubesWatched(true));
    step('ignore the last', fn() => $worker->ignore('mail'));
    $job = step('reserve', fn() => $worker->reserve());
    step('touch', fn() => $worker->touch($job));
    step('touch by another', fn() => $producer->touch($job));
    step('delete by another', fn() => $producer->delete($job));
    step('release', fn() => $worker->release($job, 20));
    $job = step('reserve another', fn() => $worker->reserveWithTimeout(0));
    step('bury', fn() => $worker->bury($job, 1));
    step('peek what is buried', fn() => $producer->peekBuried());
    step('kick-job', fn() => $producer->kickJob($job));
    step('kick-job again', fn() => $producer->kickJob($job));
    step('kick delayed ones', fn() => $producer->kick(10));
    step('kick none', fn() => $producer->kick(10));
    for ($at = 1; $at <= 4; $at++) {
        $job = step("in order $at", fn() => $worker->reserveWithTimeout(0));
        step("delete $at", fn() => $worker->delete($job));
    }
    step('delete again', fn() => $worker->delete($job));
    step('nothing', fn() => $worker->reserveWithTimeout(0));
}

function pause(Pheanstalk $worker, Pheanstalk $producer): void
{
    step('pause', fn() => $producer->pauseTube('mail', 3600));
    step('pause none', fn() => $producer->pauseTube('nowhere', 1));
    step('put while paused', fn() => $producer->put('paused', 1, 0, 1));
    step('nothing while paused', fn() => $worker->reserveWithTimeout(0));
    step('resume', fn() => $producer->resumeTube('mail'));
    step('after the pause', fn() => $worker->reserveWithTimeout(5));
    step('deadline soon', fn() => $worker->reserve());
    step('with another tube', fn() => $producer->withUsedTube('post', fn($p) => $p->put('x')));
    step('used again', fn() => $producer->listTubeUsed(true));
}

$producer = Pheanstalk::create($host, (int)$port);
$worker = Pheanstalk::create($host, (int)$port);
produce($producer);
look($producer);
consume($worker, $producer);
pause($worker, $producer);
unset($worker);
gc_collect_cycles();
step('watch', fn() => $producer->watch('mail'));
step('back after its holder left', fn() => $producer->reserveWithTimeout(5));
