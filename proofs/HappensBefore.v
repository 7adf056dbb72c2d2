(** One run stands for all.

    A program of fixed sizes, as a set of events: the operations of agents and the steps of engines,
    numbered as one run executes them. An event is possible when its static predecessors (the operation
    before it, the issue before the finish, the one before it in an ordered queue) have happened; a
    parity wait in addition when the phase bit of its barrier differs. Barriers count arrivals and bytes;
    a phase completes when all arrivals are in and no bytes are outstanding.

    From the run an order is read: static predecessors, and for each wait all that the phase which it
    observed has counted. If each barrier operation is, in that order, between the completions between
    which it was in the run (both bounds), then the states that interleavings can reach are exactly the
    parts of the run that are closed downwards: nothing deadlocks, every operation meets the phase that
    it met in the run, and two events can be pending at once exactly when the order leaves them open. *)

From Coq Require Import Bool Arith ZArith Lia Relations.
From Titan Require Import Count.

(** ** Sums of integers *)

Fixpoint zsum (n : nat) (f : nat -> Z) : Z :=
  match n with 0 => 0%Z | S m => (zsum m f + f m)%Z end.

Lemma zsum_ext n f g : (forall k, k < n -> f k = g k) -> zsum n f = zsum n g.
Proof. induction n; simpl; intros H; [easy|]. now rewrite IHn, H by auto with arith. Qed.

Lemma zsum_add n f g : zsum n (fun k => (f k + g k)%Z) = (zsum n f + zsum n g)%Z.
Proof. induction n; simpl; lia. Qed.

Lemma zsum_one n f x : x < n -> (forall k, k < n -> k <> x -> f k = 0%Z) -> zsum n f = f x.
Proof.
  induction n; intros Hx H; [lia|]. simpl. destruct (Nat.eq_dec x n) as [->|].
  - rewrite (zsum_ext n f (fun _ => 0%Z)); [|intros; apply H; lia].
    enough (zsum n (fun _ => 0%Z) = 0%Z) by lia. clear. induction n; simpl; lia.
  - rewrite IHn by (auto with arith; lia). rewrite (H n) by lia. lia.
Qed.

Lemma zsum_sign n f : (forall k, k < n -> (0 <= f k)%Z) -> (0 <= zsum n f)%Z /\
  (zsum n f = 0%Z -> forall k, k < n -> f k = 0%Z).
Proof.
  induction n; simpl; intros H; [split; [lia|intros; lia]|].
  destruct IHn as [A B]; [auto with arith|]. pose proof (H n ltac:(lia)). split; [lia|].
  intros Z k Hk. destruct (Nat.eq_dec k n) as [->|]; [lia|]. apply B; lia.
Qed.

(** ** Programs and runs *)

Inductive event :=
| Other                                       (* whatever touches no barrier: reads, writes, ... *)
| Wait (barrier parity : nat)
| Arrive (barrier : nat) (count bytes : Z).   (* arrivals, and bytes expected (+) or completed (-) *)

Record mbarrier := { phase : nat; arrived : Z; bytes : Z }.

Section Program.

Variable n : nat.                        (* events, numbered in the order of the run *)
Variable what : nat -> event.
Variable pre : nat -> nat -> bool.       (* static predecessors *)
Variable count : nat -> Z.               (* arrivals of a phase of each barrier *)

Definition complete (b : nat) (a x : Z) : bool := (a =? count b)%Z && (x =? 0)%Z.

Definition effect (k : nat) (B : nat -> mbarrier) : nat -> mbarrier :=
  match what k with
  | Arrive b c x =>
      let a' := (arrived (B b) + c)%Z in let x' := (bytes (B b) + x)%Z in
      upd B b (if complete b a' x' then {| phase := S (phase (B b)); arrived := 0; bytes := 0 |}
               else {| phase := phase (B b); arrived := a'; bytes := x' |})
  | _ => B
  end.

Definition fresh : nat -> mbarrier := fun _ => {| phase := 0; arrived := 0; bytes := 0 |}.

Definition passes (k : nat) (B : nat -> mbarrier) : Prop :=
  match what k with Wait b p => phase (B b) mod 2 <> p mod 2 | _ => True end.

(** An event can happen: it has not, all before it have, and a wait passes. *)
Definition able (k : nat) (done : nat -> bool) (B : nat -> mbarrier) : Prop :=
  k < n /\ done k = false /\ (forall i, pre i k = true -> done i = true) /\ passes k B.

(** All interleavings. *)
Inductive reachable : (nat -> bool) -> (nat -> mbarrier) -> Prop :=
| nothing : reachable (fun _ => false) fresh
| happens done B k : reachable done B -> able k done B ->
    reachable (upd done k true) (effect k B).

(** The run: events in the order of their numbers. *)
Fixpoint state (k : nat) : nat -> mbarrier :=
  match k with 0 => fresh | S m => effect m (state m) end.

(** How many phases of its barrier were complete when the event happened in the run. *)
Definition met (k : nat) : nat :=
  match what k with Wait b _ => phase (state k b) | Arrive b _ _ => phase (state k b) | Other => 0 end.

Definition arrives (b k : nat) : bool := match what k with Arrive b' _ _ => b =? b' | _ => false end.
Definition amount (k : nat) : Z := match what k with Arrive _ c _ => c | _ => 0%Z end.
Definition load (k : nat) : Z := match what k with Arrive _ _ x => x | _ => 0%Z end.

(** ** The order *)

Definition link (i k : nat) : bool :=
  pre i k || match what k with Wait b _ => arrives b i && (S (met i) =? met k) | _ => false end.

(** [i] is before [k]: a chain of links between events of the program. *)
Inductive before : nat -> nat -> Prop :=
| linked i k : k < n -> link i k = true -> before i k
| chained i j k : before i j -> before j k -> before i k.

(** *** The run is one, and shows no fault *)

Hypothesis counts : forall b, (0 < count b)%Z.
Hypothesis in_order : forall i k, pre i k = true -> i < k.
Hypothesis run_passes : forall k, k < n -> passes k (state k).
Hypothesis arrivals : forall k b c x, k < n -> what k = Arrive b c x -> (0 <= c)%Z /\ (c <> 0 \/ x <> 0)%Z.
Hypothesis no_over_arrival : forall k b, k <= n -> (arrived (state k b) <= count b)%Z.
Hypothesis no_surplus : forall k b, k <= n -> arrived (state k b) = count b -> (0 <= bytes (state k b))%Z.

(** *** Both bounds of every barrier operation *)

(** An arrival is after the completion of the phase before. *)
Hypothesis arrival_low : forall k j b, k < n -> j < n -> arrives b k = true -> arrives b j = true ->
  S (met j) = met k -> before j k.

(** Bytes are expected before some arrival of their phase. *)
Hypothesis expect_high : forall k b, k < n -> arrives b k = true -> amount k = 0%Z -> (0 < load k)%Z ->
  exists j, j < n /\ arrives b j = true /\ met j = met k /\ (0 < amount j)%Z /\ before k j.

(** Who stands at a wait is after the completion of the phase before the one that it waits for. *)
Hypothesis wait_low : forall k b p j, k < n -> what k = Wait b p -> j < n -> arrives b j = true ->
  S (S (met j)) = met k -> exists i, pre i k = true /\ (i = j \/ before j i).

(** A wait is before the completion of the next phase, if that ever completes. *)
Hypothesis wait_high : forall k b p, k < n -> what k = Wait b p -> met k < phase (state n b) ->
  exists j, j < n /\ arrives b j = true /\ met j = met k /\ before k j.

(** ** The run *)

Definition part (done : nat -> bool) (b c : nat) (f : nat -> Z) : Z :=
  zsum n (fun k => if done k && (arrives b k && (Nat.eqb (met k) c)) then f k else 0%Z).

Definition first (m : nat) : nat -> bool := fun k => k <? m.

Lemma phase_mono b m m' : m <= m' -> phase (state m b) <= phase (state m' b).
Proof.
  intros H. induction H as [|m' H IH]; [easy|]. etransitivity; [exact IH|]. cbn [state].
  unfold effect. destruct (what m'); auto. unfold upd. destruct (Nat.eq_dec barrier b) as [<-|]; auto.
  destruct (complete _ _ _); cbn; lia.
Qed.

Lemma met_arrives b k : arrives b k = true -> met k = phase (state k b).
Proof. unfold arrives, met. destruct (what k); try easy. intros E. apply Nat.eqb_eq in E. now subst. Qed.

Lemma earlier b j k : arrives b j = true -> met j < phase (state k b) -> j < k.
Proof.
  intros A H. rewrite (met_arrives b j A) in H. destruct (le_lt_dec k j) as [L|]; [|easy].
  pose proof (phase_mono b k j L). lia.
Qed.

Lemma link_lt i k : link i k = true -> i < k.
Proof.
  unfold link. intros H. apply orb_prop in H as [H|H]; [now apply in_order|].
  destruct (what k) as [|b p|] eqn:W; try easy. apply andb_prop in H as [A M].
  apply Nat.eqb_eq in M. apply earlier with b; [easy|].
  replace (met k) with (phase (state k b)) in M by (unfold met; now rewrite W). lia.
Qed.

Lemma before_lt i k : before i k -> i < k /\ k < n.
Proof. induction 1; [split; [now apply link_lt|easy]|lia]. Qed.

(** What comes last before an event that is no wait is a static predecessor. *)
Lemma before_last i k : before i k -> exists j, k < n /\ link j k = true /\ (i = j \/ before i j).
Proof.
  induction 1 as [i k H L|i j k H1 IH1 H2 IH2]; [eauto|].
  destruct IH2 as (l & Hk & L & [->|H]); exists l; eauto using before.
Qed.

Lemma part_upd done k b c f : k < n -> done k = false ->
  part (upd done k true) b c f =
  (part done b c f + (if arrives b k && (Nat.eqb (met k) c) then f k else 0))%Z.
Proof.
  intros Hk Hd. unfold part.
  rewrite (zsum_ext n _ (fun i => ((if done i && (arrives b i && (Nat.eqb (met i) c)) then f i else 0) +
    (if Nat.eqb i k then if arrives b i && (Nat.eqb (met i) c) then f i else 0 else 0))%Z)).
  - rewrite zsum_add. f_equal. rewrite zsum_one with (x := k); [now rewrite Nat.eqb_refl|easy|].
    intros i _ Hi. now apply Nat.eqb_neq in Hi as ->.
  - intros i _. unfold upd. destruct (Nat.eq_dec k i) as [<-|Hi].
    + rewrite Hd, Nat.eqb_refl. cbn. destruct (arrives b k && (Nat.eqb (met k) c)); lia.
    + destruct (Nat.eqb_spec i k) as [->|]; [easy|]. lia.
Qed.

Lemma part_ext d e b c f : (forall k, k < n -> d k = e k) -> part d b c f = part e b c f.
Proof. intros H. apply zsum_ext. intros k Hk. now rewrite H. Qed.

Lemma first_next m k : first (S m) k = upd (first m) m true k.
Proof.
  unfold first, upd. destruct (Nat.eq_dec m k) as [->|].
  - apply Nat.ltb_lt. lia.
  - destruct (Nat.ltb_spec k (S m)), (Nat.ltb_spec k m); try easy; lia.
Qed.

Lemma part_first m b c f : m < n ->
  part (first (S m)) b c f = (part (first m) b c f + (if arrives b m && (Nat.eqb (met m) c) then f m else 0))%Z.
Proof.
  intros H. rewrite <- part_upd by (auto; unfold first; apply Nat.ltb_irrefl).
  apply part_ext. intros k _. apply first_next.
Qed.

Lemma part_empty done b c f : (forall k, k < n -> done k = true -> arrives b k = true -> met k <> c) ->
  part done b c f = 0%Z.
Proof.
  intros H. unfold part. destruct n as [|n']; [easy|]. rewrite zsum_one with (x := 0); [|lia|].
  - destruct (done 0) eqn:D, (arrives b 0) eqn:A; try easy. cbn [andb].
    destruct (Nat.eqb_spec (met 0) c) as [M|]; [|easy]. now specialize (H 0 ltac:(lia) D A).
  - intros k Hk _. destruct (done k) eqn:D, (arrives b k) eqn:A; try easy. cbn [andb].
    destruct (Nat.eqb_spec (met k) c) as [M|]; [|easy]. now specialize (H k Hk D A).
Qed.

(** What the barriers of a state say, in terms of what has happened. *)
Definition counted (done : nat -> bool) (B : nat -> mbarrier) (b : nat) : Prop :=
  arrived (B b) = part done b (phase (B b)) amount /\
  bytes (B b) = part done b (phase (B b)) load /\
  ~ (arrived (B b) = count b /\ bytes (B b) = 0%Z).

Lemma counted_fresh b : counted (fun _ => false) fresh b.
Proof.
  unfold counted, fresh. cbn [phase arrived bytes].
  rewrite !part_empty by easy. pose proof (counts b). repeat split; lia.
Qed.

(** An event that meets the phase which it met in the run. *)
Lemma counted_effect done B k : k < n -> done k = false -> (forall b, counted done B b) ->
  (forall b, arrives b k = true -> met k = phase (B b)) ->
  (forall b i, i < n -> arrives b i = true -> done i = true -> met i <= phase (B b)) ->
  forall b, counted (upd done k true) (effect k B) b.
Proof.
  intros Hk Hd H Hm Hle b. destruct (H b) as (A & X & NC). unfold counted, effect.
  assert (same : arrives b k = false -> forall c f, part (upd done k true) b c f = part done b c f).
  { intros E c f. rewrite part_upd by easy. rewrite E. cbn. lia. }
  destruct (what k) as [|b' p|b' c x] eqn:W;
    try (rewrite !same by (unfold arrives; now rewrite W); auto).
  unfold upd. destruct (Nat.eq_dec b' b) as [->|Hb].
  - assert (E : arrives b k = true) by (unfold arrives; rewrite W; apply Nat.eqb_refl).
    pose proof (Hm b E) as M.
    assert (Pa : forall f, part (fun y => if Nat.eq_dec k y then true else done y) b (phase (B b)) f =
                           (part done b (phase (B b)) f + f k)%Z).
    { intros f. fold (upd done k true). rewrite part_upd by easy. rewrite E, M, Nat.eqb_refl. easy. }
    assert (Ek : amount k = c /\ load k = x) by (unfold amount, load; now rewrite W).
    destruct Ek as [Ec Ex].
    destruct (complete b (arrived (B b) + c) (bytes (B b) + x)) eqn:V; cbn [phase arrived bytes].
    + rewrite !part_empty; [pose proof (counts b); repeat split; lia| |];
        intros i Hi D Ai Mi; destruct (Nat.eq_dec k i) as [<-|]; try lia;
        specialize (Hle b i Hi Ai D); lia.
    + rewrite !Pa, Ec, Ex, <- A, <- X. split; [easy|]. split; [easy|]. intros [V1 V2].
      unfold complete in V. rewrite V1, V2, !Z.eqb_refl in V. easy.
  - assert (E : arrives b k = false) by (unfold arrives; rewrite W; apply Nat.eqb_neq; auto).
    fold (upd done k true). rewrite !same by easy. auto.
Qed.

Lemma counted_state m : m <= n -> forall b, counted (first m) (state m) b.
Proof.
  induction m as [|m IH]; intros H.
  - intros b. destruct (counted_fresh b) as (A & X & NC). unfold counted. cbn [state].
    rewrite !(part_ext (first 0) (fun _ => false)) by easy. auto.
  - intros b. cbn [state].
    destruct (counted_effect (first m) (state m) m ltac:(lia) (Nat.ltb_irrefl m) (IH ltac:(lia))
      (fun b => met_arrives b m)) with (b := b) as (A & X & NC).
    { intros b' i Hi Ai D. apply Nat.ltb_lt in D. rewrite (met_arrives b' i Ai).
      apply phase_mono. lia. }
    unfold counted. rewrite !(part_ext (first (S m)) (upd (first m) m true)); [auto| |];
      intros k _; apply first_next.
Qed.

(** All that a phase counts: its arrivals add up to the count, its bytes to none, if it completes. *)
Lemma phase_total b c : c < phase (state n b) ->
  part (fun _ => true) b c amount = count b /\ part (fun _ => true) b c load = 0%Z.
Proof.
  assert (G : forall m, m <= n -> c < phase (state m b) ->
    part (first m) b c amount = count b /\ part (first m) b c load = 0%Z).
  { induction m as [|m IH]; intros H Hc; [cbn in Hc; lia|].
    rewrite !part_first by lia. destruct (counted_state m ltac:(lia) b) as (A & X & _).
    destruct (le_lt_dec (phase (state m b)) c) as [L|L].
    - cbn [state] in Hc. unfold effect in Hc. destruct (what m) as [| |b' a x] eqn:W; try lia.
      unfold upd in Hc. destruct (Nat.eq_dec b' b) as [->|]; [|lia].
      destruct (complete b _ _) eqn:V; cbn [phase] in Hc; [|lia].
      assert (E : arrives b m = true) by (unfold arrives; rewrite W; apply Nat.eqb_refl).
      assert (Ec : c = phase (state m b)) by lia. subst c.
      rewrite E, (met_arrives b m E), Nat.eqb_refl. cbn [andb].
      unfold complete in V. apply andb_prop in V as [V1 V2].
      apply Z.eqb_eq in V1. apply Z.eqb_eq in V2. unfold amount at 2, load at 2. rewrite W.
      split; lia.
    - destruct (IH ltac:(lia) L) as [H1 H2]. rewrite H1, H2.
      destruct (arrives b m) eqn:E; cbn [andb]; [|lia].
      rewrite (met_arrives b m E). destruct (Nat.eqb_spec (phase (state m b)) c); lia. }
  intros H. destruct (G n ltac:(lia) H) as [H1 H2]. split.
  - rewrite <- H1. apply part_ext. intros k Hk. symmetry. now apply Nat.ltb_lt.
  - rewrite <- H2. apply part_ext. intros k Hk. symmetry. now apply Nat.ltb_lt.
Qed.

Lemma last_total b f : part (fun _ => true) b (phase (state n b)) f = part (first n) b (phase (state n b)) f.
Proof. apply part_ext. intros k Hk. symmetry. now apply Nat.ltb_lt. Qed.

(** ** All interleavings *)

Definition closed (done : nat -> bool) : Prop :=
  (forall i k, before i k -> done k = true -> done i = true) /\ (forall k, done k = true -> k < n).

Record sound (done : nat -> bool) (B : nat -> mbarrier) : Prop := {
  s_closed : closed done;
  s_counted b : counted done B b;
  s_past b k : k < n -> arrives b k = true -> met k < phase (B b) -> done k = true;
  s_now b k : k < n -> arrives b k = true -> done k = true -> met k <= phase (B b);
  s_end b : phase (B b) <= phase (state n b)
}.

(** A phase that completes in the run and is open now still lacks something. *)
Lemma lacking done B b : sound done B -> phase (B b) < phase (state n b) ->
  exists k, k < n /\ arrives b k = true /\ met k = phase (B b) /\ done k = false.
Proof.
  intros I H. destruct (s_counted _ _ I b) as (A & X & NC).
  destruct (search n (fun k => arrives b k = true /\ met k = phase (B b) /\ done k = false))
    as [[k [Hk Hx]]|No].
  - intros k _. destruct (arrives b k), (Nat.eq_dec (met k) (phase (B b))), (done k); auto;
      right; intuition congruence.
  - exists k. tauto.
  - exfalso. apply NC. destruct (phase_total b _ H) as [H1 H2]. rewrite A, X, <- H1, <- H2.
    split; apply zsum_ext; intros k Hk; specialize (No k Hk);
      destruct (done k), (arrives b k); try easy; cbn [andb];
      destruct (Nat.eqb_spec (met k) (phase (B b))); try easy; exfalso; apply No; auto.
Qed.

(** Phases whose arrivals have all happened are complete. *)
Lemma reached done B b c : sound done B -> c <= phase (state n b) ->
  (forall j, j < n -> arrives b j = true -> met j < c -> done j = true) -> c <= phase (B b).
Proof.
  intros I Hc H. destruct (le_lt_dec c (phase (B b))) as [|L]; [easy|exfalso].
  destruct (lacking done B b I ltac:(lia)) as (k & Hk & A & M & D).
  rewrite (H k Hk A ltac:(lia)) in D. easy.
Qed.

(** All phases before the one of an arrival that happened are past, by the lower bound of arrivals. *)
Lemma chain done b j k : closed done -> k < n -> j < n -> arrives b j = true -> arrives b k = true ->
  met j < met k -> (forall i, i < n -> arrives b i = true -> S (met i) = met k -> done i = true) ->
  done j = true.
Proof.
  intros [C _] Hk Hj Aj Ak. remember (met k - met j) as d eqn:E. revert j E Hj Aj.
  induction d as [d IH] using lt_wf_ind. intros j E Hj Aj L H.
  destruct (Nat.eq_dec (S (met j)) (met k)) as [e|ne]; [now apply H|].
  assert (X : exists m, m < n /\ arrives b m = true /\ met m = S (met j)).
  { assert (P1 : S (met j) < phase (state n b)).
    { rewrite (met_arrives b k Ak) in *. pose proof (phase_mono b k n ltac:(lia)). lia. }
    destruct (phase_total b _ P1) as [T _].
    destruct (search n (fun m => arrives b m = true /\ met m = S (met j))) as [[m [Hm Hx]]|No].
    - intros m _. destruct (arrives b m), (Nat.eq_dec (met m) (S (met j))); auto;
        right; intuition congruence.
    - exists m. tauto.
    - exfalso. pose proof (counts b). rewrite part_empty in T; [lia|].
      intros m Hm _ Am Mm. apply (No m Hm). auto. }
  destruct X as (m & Hm & Am & Mm). apply (C j m); [now apply (arrival_low m j b)|].
  apply (IH (met k - met m)) with (j := m); auto; lia.
Qed.

Lemma met_end b k : k < n -> arrives b k = true -> met k <= phase (state n b).
Proof. intros Hk A. rewrite (met_arrives b k A). apply phase_mono. lia. Qed.

(** All arrivals of phases before that of an event whose static predecessors have happened. *)
Lemma arrival_exact done B b k : sound done B -> k < n -> arrives b k = true -> done k = false ->
  (forall i, pre i k = true -> done i = true) -> phase (B b) = met k.
Proof.
  intros I Hk A D Hp. pose proof (s_closed _ _ I) as C.
  assert (near : forall i, i < n -> arrives b i = true -> S (met i) = met k -> done i = true).
  { intros i Hi Ai Mi. destruct (before_last i k (arrival_low k i b Hk Hi A Ai Mi)) as (l & _ & L & H).
    unfold link in L. assert (P1 : pre l k = true).
    { apply orb_prop in L as [L|L]; [easy|]. unfold arrives in A. now destruct (what k). }
    destruct H as [->|H]; [auto|]. apply (proj1 C i l); auto. }
  assert (low : met k <= phase (B b)).
  { apply (reached done B b (met k) I (met_end b k Hk A)). intros j Hj Aj Mj.
    now apply (chain done b j k). }
  destruct (le_lt_dec (phase (B b)) (met k)) as [|L]; [lia|].
  rewrite (s_past _ _ I b k Hk A L) in D. easy.
Qed.

(** Who stands at a wait finds the barrier at the phase met in the run, or at the one before. *)
Lemma wait_near done B b p k : sound done B -> k < n -> what k = Wait b p -> done k = false ->
  (forall i, pre i k = true -> done i = true) -> met k <= phase (B b) + 1 /\ phase (B b) <= met k.
Proof.
  intros I Hk W D Hp. pose proof (s_closed _ _ I) as C.
  assert (Mk : met k = phase (state k b)) by (unfold met; now rewrite W).
  assert (Me : met k <= phase (state n b)) by (rewrite Mk; apply phase_mono; lia).
  split.
  - destruct (met k) as [|[|c]] eqn:M; [lia|lia|].
    enough (S c <= phase (B b)) by lia. apply (reached done B b (S c) I ltac:(lia)).
    assert (near : forall i, i < n -> arrives b i = true -> S (met i) = S c -> done i = true).
    { intros i Hi Ai Mi. destruct (wait_low k b p i Hk W Hi Ai ltac:(lia)) as (l & Hl & [->|H]); auto.
      apply (proj1 C i l); auto. }
    intros j Hj Aj Mj. destruct (Nat.eq_dec (met j) c) as [e|ne]; [apply near; auto; lia|].
    assert (X : exists m, m < n /\ arrives b m = true /\ met m = c).
    { destruct (phase_total b c ltac:(lia)) as [T _].
      destruct (search n (fun m => arrives b m = true /\ met m = c)) as [[m [Hm Hx]]|No].
      - intros m _. destruct (arrives b m), (Nat.eq_dec (met m) c); auto; right; intuition congruence.
      - exists m. tauto.
      - exfalso. pose proof (counts b). rewrite part_empty in T; [lia|].
        intros m Hm _ Am Mm. apply (No m Hm). auto. }
    destruct X as (m & Hm & Am & Mm). assert (Dm : done m = true) by (apply near; auto; lia).
    apply (chain done b j m); auto; [lia|]. intros i Hi Ai Mi.
    apply (proj1 C i m); auto. now apply (arrival_low m i b).
  - destruct (le_lt_dec (phase (B b)) (met k)) as [|L]; [easy|exfalso].
    pose proof (s_end _ _ I b) as Se. destruct (wait_high k b p Hk W ltac:(lia)) as (j & Hj & Aj & Mj & H).
    pose proof (s_past _ _ I b j Hj Aj ltac:(lia)) as Dj.
    rewrite (proj1 C k j H Dj) in D. easy.
Qed.

Lemma parity_near a c p : a mod 2 <> p mod 2 -> c mod 2 <> p mod 2 -> c <= a + 1 -> a <= c -> a = c.
Proof.
  intros H1 H2 H3 H4. pose proof (Nat.div_mod a 2 ltac:(lia)). pose proof (Nat.div_mod c 2 ltac:(lia)).
  pose proof (Nat.mod_upper_bound a 2 ltac:(lia)). pose proof (Nat.mod_upper_bound c 2 ltac:(lia)).
  pose proof (Nat.mod_upper_bound p 2 ltac:(lia)). lia.
Qed.

(** A wait passes exactly at the phase that it met in the run. *)
Lemma wait_exact done B b p k : sound done B -> k < n -> what k = Wait b p -> done k = false ->
  (forall i, pre i k = true -> done i = true) -> passes k B -> phase (B b) = met k.
Proof.
  intros I Hk W D Hp Ps. destruct (wait_near done B b p k I Hk W D Hp) as [L H].
  pose proof (run_passes k Hk) as R. unfold passes in *. rewrite W in *.
  apply parity_near with p; auto. unfold met. now rewrite W.
Qed.

Lemma closed_step done B k : sound done B -> able k done B -> closed (upd done k true).
Proof.
  intros I (Hk & D & Hp & Ps). pose proof (s_closed _ _ I) as C. split.
  - intros i j H. unfold upd. destruct (Nat.eq_dec k i) as [|Ni]; [easy|].
    destruct (Nat.eq_dec k j) as [<-|Nj]; [|now apply (proj1 C)]. intros _.
    destruct (before_last i k H) as (l & _ & L & Hl).
    enough (Dl : done l = true) by (destruct Hl as [->|Hl]; [easy|now apply (proj1 C i l)]).
    unfold link in L. apply orb_prop in L as [L|L]; [auto|].
    destruct (what k) as [|b p|] eqn:W; try easy. apply andb_prop in L as [A M].
    apply Nat.eqb_eq in M. pose proof (wait_exact done B b p k I Hk W D Hp Ps) as E.
    apply (s_past _ _ I b l); auto; [|lia].
    pose proof (before_lt l k (linked l k Hk ltac:(unfold link; rewrite W, A, M, Nat.eqb_refl; apply orb_true_r))). lia.
  - intros j. unfold upd. destruct (Nat.eq_dec k j) as [<-|]; [easy|apply C].
Qed.

Lemma split_part done b c f :
  part (fun _ => true) b c f = (part done b c f + part (fun k => negb (done k)) b c f)%Z.
Proof.
  unfold part. rewrite <- zsum_add. apply zsum_ext. intros k _.
  destruct (done k); cbn [negb andb]; lia.
Qed.

(** A phase completes only when all that it counts has happened, and only if it does in the run. *)
Lemma completes_whole done b c : closed done -> c <= phase (state n b) ->
  part done b c amount = count b -> part done b c load = 0%Z ->
  c < phase (state n b) /\ forall k, k < n -> arrives b k = true -> met k = c -> done k = true.
Proof.
  intros C Hc Ha Hx.
  assert (Ta : (part (fun _ => true) b c amount <= count b)%Z).
  { destruct (Nat.eq_dec c (phase (state n b))) as [->|].
    - rewrite last_total. destruct (counted_state n ltac:(lia) b) as (A & _). rewrite <- A. auto.
    - destruct (phase_total b c ltac:(lia)). lia. }
  pose proof (split_part done b c amount) as Sa. pose proof (split_part done b c load) as Sx.
  pose (missing := fun k => negb (done k)). fold missing in Sa, Sx.
  assert (Na : forall k, k < n -> (0 <= if missing k && (arrives b k && (Nat.eqb (met k) c)) then amount k else 0)%Z).
  { intros k Hk. destruct (missing k && (arrives b k && (Nat.eqb (met k) c))); [|lia].
    unfold amount. destruct (what k) as [| |b' a x] eqn:W; try lia.
    now destruct (arrivals k b' a x Hk W). }
  destruct (zsum_sign n _ Na) as [Pa Za]. fold (part missing b c amount) in Pa, Za.
  assert (Zero : part missing b c amount = 0%Z) by lia.
  specialize (Za Zero).
  (* what is missing has no arrivals, and bytes that are completed *)
  assert (Neg : forall k, k < n -> missing k = true -> arrives b k = true -> met k = c -> (load k < 0)%Z).
  { intros k Hk Mk Ak Ck. pose proof (Za k Hk) as Zk. rewrite Mk, Ak, Ck, Nat.eqb_refl in Zk. cbn in Zk.
    destruct (what k) as [| |b' a x] eqn:W; unfold arrives in Ak; rewrite W in Ak; try easy.
    destruct (arrivals k b' a x Hk W) as [_ [N|N]].
    - unfold amount in Zk. rewrite W in Zk. easy.
    - destruct (Z_lt_le_dec (load k) 0) as [|G]; [easy|exfalso].
      assert (Lk : load k = x) by (unfold load; now rewrite W).
      assert (Ab : arrives b k = true) by (unfold arrives; now rewrite W).
      destruct (expect_high k b Hk Ab Zk ltac:(lia)) as (j & Hj & Aj & Mj & Pj & Bj).
      assert (Dj : done j = true).
      { destruct (done j) eqn:Dj; [easy|exfalso]. specialize (Za j Hj). unfold missing in Za.
        rewrite Dj, Aj, Mj, Ck, Nat.eqb_refl in Za. cbn in Za. lia. }
      pose proof (proj1 C k j Bj Dj) as Dk. unfold missing in Mk. now rewrite Dk in Mk. }
  assert (Nx : forall k, k < n -> (0 <= if missing k && (arrives b k && (Nat.eqb (met k) c)) then - load k else 0)%Z).
  { intros k Hk. destruct (missing k) eqn:Mk, (arrives b k) eqn:Ak; cbn [andb]; try lia.
    destruct (Nat.eqb_spec (met k) c) as [Ck|]; [|lia]. specialize (Neg k Hk Mk Ak Ck). lia. }
  destruct (zsum_sign n _ Nx) as [Px Zx].
  assert (Opp : zsum n (fun k => if missing k && (arrives b k && (Nat.eqb (met k) c)) then (- load k)%Z else 0%Z)
                = (- part missing b c load)%Z).
  { unfold part. clear. induction n as [|m IH]; [easy|]. cbn [zsum]. rewrite IH.
    destruct (missing m && (arrives b m && (Nat.eqb (met m) c))); lia. }
  rewrite Opp in Px, Zx.
  assert (Hlt : c < phase (state n b)).
  { destruct (Nat.eq_dec c (phase (state n b))) as [E|]; [exfalso|lia].
    destruct (counted_state n ltac:(lia) b) as (A & X & NC). rewrite <- E in A, X.
    rewrite E in Sa, Sx. rewrite !last_total, <- E in Sa, Sx. rewrite <- A in Sa. rewrite <- X in Sx.
    pose proof (no_surplus n b ltac:(lia) ltac:(lia)). apply NC. lia. }
  split; [easy|]. intros k Hk Ak Mk. destruct (done k) eqn:Dk; [easy|exfalso].
  destruct (phase_total b c Hlt) as [_ T]. specialize (Zx ltac:(lia) k Hk).
  assert (Ms : missing k = true) by (unfold missing; now rewrite Dk).
  rewrite Ms, Ak, Mk, Nat.eqb_refl in Zx. cbn in Zx. specialize (Neg k Hk Ms Ak Mk). lia.
Qed.

Lemma sound_step done B k : sound done B -> able k done B -> sound (upd done k true) (effect k B).
Proof.
  intros I Ab. pose proof (closed_step done B k I Ab) as C'. destruct Ab as (Hk & D & Hp & Ps).
  assert (Ex : forall b, arrives b k = true -> met k = phase (B b)).
  { intros b A. symmetry. now apply arrival_exact with done. }
  assert (Cn : forall b, counted (upd done k true) (effect k B) b).
  { apply counted_effect; auto; [apply (s_counted _ _ I)|]. intros b i Hi Ai Di.
    now apply (s_now _ _ I). }
  assert (U : forall i, upd done k true i = true <-> i = k \/ done i = true).
  { intros i. unfold upd. destruct (Nat.eq_dec k i) as [<-|]; [tauto|]. intuition congruence. }
  (* what the effect does to each barrier *)
  assert (E : forall b, phase (effect k B b) = phase (B b) \/
    (arrives b k = true /\ phase (effect k B b) = S (phase (B b)) /\ phase (B b) < phase (state n b) /\
     forall i, i < n -> arrives b i = true -> met i = phase (B b) -> upd done k true i = true)).
  { intros b. unfold effect. destruct (what k) as [| |b' c x] eqn:W; auto. unfold upd at 1 2.
    destruct (Nat.eq_dec b' b) as [->|]; auto.
    destruct (complete b (arrived (B b) + c) (bytes (B b) + x)) eqn:V; cbn [phase]; auto. right.
    assert (A : arrives b k = true) by (unfold arrives; rewrite W; apply Nat.eqb_refl).
    split; [easy|]. split; [easy|]. destruct (s_counted _ _ I b) as (Ha & Hx & _).
    assert (Ek : amount k = c /\ load k = x) by (unfold amount, load; now rewrite W).
    unfold complete in V. apply andb_prop in V as [V1 V2].
    apply Z.eqb_eq in V1. apply Z.eqb_eq in V2.
    apply (completes_whole (upd done k true) b (phase (B b)) C' (s_end _ _ I b));
      rewrite part_upd by easy; rewrite A, (Ex b A), Nat.eqb_refl; cbn [andb]; lia. }
  split; auto.
  - intros b i Hi Ai Mi. apply U. destruct (E b) as [Eb|(_ & Eb & _ & Al)]; rewrite Eb in Mi.
    + right. now apply (s_past _ _ I b i).
    + destruct (Nat.eq_dec (met i) (phase (B b))) as [e|]; [apply U; now apply Al|].
      right. apply (s_past _ _ I b i); auto; lia.
  - intros b i Hi Ai Di. apply U in Di. destruct (E b) as [Eb|(_ & Eb & _)]; rewrite Eb;
      (destruct Di as [->|Di]; [rewrite (Ex b Ai); lia|]; pose proof (s_now _ _ I b i Hi Ai Di); lia).
  - intros b. pose proof (s_end _ _ I b). destruct (E b) as [Eb|(_ & Eb & ? & _)]; lia.
Qed.

Lemma sound_nothing : sound (fun _ => false) fresh.
Proof.
  split; try easy.
  - intros b. apply counted_fresh.
  - intros b. cbn. lia.
Qed.

Lemma sound_reachable done B : reachable done B -> sound done B.
Proof. induction 1; [apply sound_nothing|now apply sound_step]. Qed.

(** ** What one run decides *)

(** Every interleaving is a linear order of the relation. *)
Theorem linear done B : reachable done B -> closed done.
Proof. intros R. apply (s_closed _ _ (sound_reachable _ _ R)). Qed.

(** Every arrival and every wait meets the phase that it met in the run. *)
Theorem phases_met done B k b : reachable done B -> able k done B ->
  (arrives b k = true \/ exists p, what k = Wait b p) -> phase (B b) = met k.
Proof.
  intros R (Hk & D & Hp & Ps) [A|[p W]].
  - apply arrival_exact with done; auto. now apply sound_reachable.
  - apply wait_exact with done p; auto. now apply sound_reachable.
Qed.

(** No wait is lapped: while an agent stands at it, the barrier is at its phase or at the one before. *)
Theorem never_lapped done B k b p : reachable done B -> k < n -> what k = Wait b p -> done k = false ->
  (forall i, pre i k = true -> done i = true) -> met k <= phase (B b) + 1 /\ phase (B b) <= met k.
Proof. intros R Hk W D Hp. apply wait_near with done p; auto. now apply sound_reachable. Qed.

(** An event all of whose predecessors have happened can happen. *)
Lemma ready done B k : sound done B -> k < n -> done k = false ->
  (forall i, before i k -> done i = true) -> able k done B.
Proof.
  intros I Hk D H. assert (Hp : forall i, pre i k = true -> done i = true).
  { intros i P1. apply H. apply linked; [easy|]. unfold link. now rewrite P1. }
  split; [easy|]. split; [easy|]. split; [easy|]. unfold passes. destruct (what k) as [|b p|] eqn:W; auto.
  destruct (wait_near done B b p k I Hk W D Hp) as [L Hh].
  assert (Mk : met k = phase (state k b)) by (unfold met; now rewrite W).
  assert (low : met k <= phase (B b)).
  { destruct (met k) as [|c] eqn:M; [lia|].
    assert (near : forall i, i < n -> arrives b i = true -> met i = c -> done i = true).
    { intros i Hi Ai Mi. apply H. apply linked; [easy|]. unfold link. rewrite W, Ai, Mi, M, Nat.eqb_refl.
      apply orb_true_r. }
    destruct (le_lt_dec (S c) (phase (B b))) as [|Lt]; [easy|exfalso].
    assert (Eq : phase (B b) = c) by lia.
    assert (Me : S c <= phase (state n b)) by (rewrite Mk; apply phase_mono; lia).
    destruct (lacking done B b I ltac:(lia)) as (j & Hj & Aj & Mj & Dj).
    rewrite (near j Hj Aj ltac:(lia)) in Dj. easy. }
  pose proof (run_passes k Hk) as R. unfold passes in R. rewrite W, <- Mk in R.
  replace (phase (B b)) with (met k) by lia. easy.
Qed.

(** Nothing deadlocks: until all has happened, something can. *)
Theorem no_deadlock done B : reachable done B ->
  (forall k, k < n -> done k = true) \/ exists k, able k done B.
Proof.
  intros R. pose proof (sound_reachable _ _ R) as I.
  assert (G : forall m, m <= n -> (forall k, k < m -> done k = true) \/
              exists k, k < n /\ done k = false /\ forall i, i < k -> done i = true).
  { induction m as [|m IH]; intros Hm; [left; intros; lia|].
    destruct (IH ltac:(lia)) as [A|E]; [|auto]. destruct (done m) eqn:D.
    - left. intros k Hk. destruct (Nat.eq_dec k m) as [->|]; [easy|]. apply A. lia.
    - right. exists m. auto. }
  destruct (G n ltac:(lia)) as [A|(k & Hk & D & H)]; [auto|]. right. exists k.
  apply ready; auto. intros i Bi. apply H. now apply before_lt.
Qed.

(** Every part of the run that is closed downwards is reached. *)
Theorem all_reached part' : closed part' ->
  exists done B, reachable done B /\ forall k, done k = part' k.
Proof.
  intros C.
  assert (G : forall m, exists done B, reachable done B /\ forall k, done k = part' k && (k <? m)).
  { induction m as [|m (done & B & R & H)].
    - exists (fun _ => false), fresh. split; [constructor|]. intros k. now rewrite andb_false_r.
    - destruct (part' m) eqn:Pm.
      + exists (upd done m true), (effect m B). split.
        * apply happens; [easy|]. apply ready.
          -- now apply sound_reachable.
          -- now apply C.
          -- rewrite H, Nat.ltb_irrefl. apply andb_false_r.
          -- intros i Bi. rewrite H. rewrite (proj1 C i m Bi Pm). now apply Nat.ltb_lt, before_lt.
        * intros k. unfold upd. destruct (Nat.eq_dec m k) as [<-|].
          -- rewrite Pm. symmetry. apply Nat.ltb_lt. lia.
          -- rewrite H. destruct (Nat.ltb_spec k m), (Nat.ltb_spec k (S m)); try easy; lia.
      + exists done, B. split; [easy|]. intros k. rewrite H.
        destruct (Nat.ltb_spec k m), (Nat.ltb_spec k (S m)); try easy; try lia.
        replace k with m by lia. now rewrite Pm. }
  destruct (G n) as (done & B & R & H). exists done, B. split; [easy|]. intros k. rewrite H.
  destruct (part' k) eqn:Pk; [|easy]. now apply Nat.ltb_lt, C.
Qed.

(** Two events can be pending at once exactly when neither is before the other: races, overwrites in
    flight and missing fences are decided on the order. *)
Theorem pending_together (decide : forall i k, {before i k} + {~ before i k}) i k :
  i < n -> k < n -> i <> k ->
  ((~ before i k /\ ~ before k i) <->
   exists done B, reachable done B /\ able i done B /\ able k done B).
Proof.
  intros Hi Hk Hn. split.
  - intros [N1 N2].
    pose (T := fun e => (if decide e i then true else false) || (if decide e k then true else false)).
    assert (TT : forall e, T e = true <-> before e i \/ before e k).
    { intros e. unfold T. destruct (decide e i), (decide e k); cbn; intuition easy. }
    assert (C : closed T).
    { split.
      - intros a c H Hc. apply TT. apply TT in Hc as [Hc|Hc]; [left|right]; now apply chained with c.
      - intros e He. apply TT in He as [He|He]; destruct (before_lt _ _ He); lia. }
    destruct (all_reached T C) as (done & B & R & H). exists done, B. split; [easy|].
    pose proof (sound_reachable _ _ R) as I.
    split; apply ready; auto; try (intros e He; rewrite H; apply TT; auto).
    + rewrite H. destruct (T i) eqn:E; [|easy]. apply TT in E as [E|E]; [|easy].
      destruct (before_lt _ _ E). lia.
    + rewrite H. destruct (T k) eqn:E; [|easy]. apply TT in E as [E|E]; [easy|].
      destruct (before_lt _ _ E). lia.
  - intros (done & B & R & A1 & A2).
    assert (no : forall a c, a <> c -> able a done B -> able c done B -> ~ before a c).
    { intros a c Nac (_ & Da & _) Ac H.
      pose proof (linear _ _ (happens done B c R Ac)) as C.
      pose proof (proj1 C a c H (upd_same done c true)) as D'. rewrite upd_other in D' by auto.
      congruence. }
    split; [now apply no|apply no; auto].
Qed.

End Program.
