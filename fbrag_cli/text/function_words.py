"""The function words of each language: words of grammar such as "the" and "of".

They are no search terms, and their share of a text shows its language. All are in lower case; where an apostrophe joins a short
word to the next ("l'eau", "don't"), both halves stand here separately.
"""

from __future__ import annotations

FUNCTION_WORDS = {
    "en": """
    a about above after again against ain all also am an and any are aren as at be because been before being below between
    both but by can cannot could couldn d did didn do does doesn doing don down during each else ever few for from further
    get got had hadn has hasn have haven having he her here hers herself him himself his how however i if in into is isn
    it its itself just ll let m may me might more most much must my myself no nor not now o of off on once only or other
    ought our ours ourselves out over own re s same shall she should shouldn so some such t than that the their theirs
    them themselves then there these they this those though through thus to too under until up upon us ve very was wasn we
    were weren what when where whether which while who whom whose why will with within without would wouldn yet you your
    yours yourself yourselves""",
    "de": """
    aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis da damit dann das dass daß dein deine
    dem den denn der des dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
    eines er es etwas euch euer für gegen habe haben hat hatte hatten hier hinter ich ihm ihn ihnen ihr ihre ihrem ihren
    ihrer im in ins ist ja jede jedem jeden jeder jedes jene jener kann kein keine keinen können man mehr mein meine mich
    mir mit nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seit sich sie sind so solche
    soll sollte über um und uns unser unter viel vom von vor war waren warum was weg weil welche welchem welchen welcher
    welches wem wen wenn wer werde werden wie wieder wir wird wo wurde wurden zu zum zur zwar zwischen""",
    "fr": """
    ai ainsi alors après as au aucun aussi autre autres aux avant avec avoir c ce cela celle celles celui ces cet cette
    ceux chaque chez comme comment d dans de depuis des donc dont du elle elles en encore entre est et étaient était été
    être eu eux fait il ils j je jusqu l la là laquelle le lequel les lesquels leur leurs lors lorsqu lui m ma mais me
    même mes moi mon n ne ni nos notre nous on ont ou où par parce pas pendant peu peut plus pour pourquoi puis puisqu qu
    quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son sont sous sur t ta te tes ton tous tout
    toute toutes très tu un une vers vos votre vous y à""",
    "es": """
    a al algo algunas algunos ante antes aquel aquella aunque bajo cada como cómo con contra cual cuál cuales cuáles
    cuando cuándo de del desde donde dónde dos durante e el él ella ellas ellos en entre era eran eres es esa esas ese eso
    esos esta está estaba están estas este esto estos fue fueron ha haber había habían han hasta hay la las le les lo los
    más me mi mí mis mucho muchos muy nada ni no nos nosotros o os otra otras otro otros para pero poco por porque qué que
    quien quién quienes se sea ser si sí sido sin sobre son su sus también tan tanto te tiene tienen todo todos tu tú tus
    un una unas uno unos y ya yo""",
    "it": """
    a ad agli ai al alla alle allo anche ancora avere aveva avevano c che chi ci coi col come con contro cosa cui d da
    dagli dai dal dall dalla dalle dallo degli dei del dell della delle dello dentro di dopo dove e è ed era erano essere
    fra fu furono gli ha hanno i il in io l la le lei li lo loro lui ma me mentre mi mia mio molto ne negli nei nel nell
    nella nelle nello noi nostra nostro o ogni per perché però più poi prima qual quale quali quando quanto quella quelle
    quelli quello questa queste questi questo qui se sei senza si sì sia siamo sono sopra sotto sta stata stato su sua sue
    sugli sui sul sull sulla sulle suo suoi te ti tra tu tutti tutto un una uno vi voi""",
    "pt": """
    a à ao aos aquela aquele as às até com como da das de dela dele deles depois do dos e é ela elas ele eles em entre era
    eram essa essas esse esses esta está estão estas estava este estes eu foi foram há isso isto já lhe lhes mais mas me
    mesmo meu meus minha muito na nas não nem no nos nós nossa nosso num numa o os ou para pela pelas pelo pelos por
    porque qual quais quando que quem onde são se sem ser seu seus sob sobre só sua suas também te tem têm ter teve tinha
    tinham toda todas todo todos tu um uma umas uns você vocês""",
    "ca": """
    a al als amb ans aquell aquella aquells aquest aquesta aquests així això abans bé cada com d de del dels des després
    doncs durant el ell ella elles ells els em en encara entre era eren és es està estan et fins ha han havia hi ho i jo l
    la les li llavors m me més meu meva molt molta n na ni no nosaltres o on però per perquè pel pels qual quals quan què
    que qui s sense ser seu seva seus seves si sobre són t també tan tot tota tots un una unes uns va van vosaltres""",
    "ro": """
    a acea aceasta această aceea acei acel acele acest acesta aceste acestea acestor acestui ai al ale alt alta am ar are
    asta astfel atunci au avea avut ca că care cărei căreia căror cărui ce cea cei cel cele cine cu cum când dar dacă de
    deci decât deja deși despre din după ea ei el ele era erau este eu fi fie fost i îi în încă înainte într însă îl își
    la le lor lui mai mult nici noi nu o ori pe pentru peste prin până sa să sale sau se și sub sunt toate tot un una unde
    unei unele unii unor unui va voi""",
    "nl": """
    aan al alle alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen had
    hadden heb hebben heeft hem het hier hij hoe hun ik in is ja je kan kon kunnen maar me meer men met mij mijn moet na
    naar niet niets nog nu of om omdat onder ons onze ook op over reeds te tegen toch toen tot u uit uw van veel voor waar
    waarom wanneer want waren was wat welke werd werden wezen wie wiens wij wil worden wordt ze zelf zich zij zijn zo
    zonder zou zouden""",
    "sv": """
    alla allt än är att av bara blev bli blir da de deras dem den denna dess dessa det detta dig din dina du där då efter
    ej eller en er ett från för ha hade han hans har henne hennes hon honom hur här i icke ingen inom inte ja jag kan
    kunde man med mellan men mig min mina mot mycket när någon något några nu och om oss på sedan sig sin sina sitt själv
    ska skall skulle som så till under upp ut utan vad var vara varför varit vem vi vid vilka vilken vilket åt över""",
    "da": """
    ad af alle alt anden andre at blev blive bliver da de dem den denne der deres det dette dig din disse dit dog du efter
    eller en end er et for fra få før ham han hans har havde have hende hendes her hos hun hvad hvem hver hvilken hvilke
    hvis hvor hvordan hvorfor i ikke ind ingen jeg jer jo kan kun kunne man mange med meget mellem men mig min mine mod
    ned noget nogen nogle nu når og også om op os over på selv sig sin sine sit skal skulle som så til ud under var ved vi
    vil ville vor være været""",
    "no": """
    alle at av bare ble bli blir da de deg dem den denne der deres det dette din disse du eller en enn er et ett etter for
    fordi fra før ha hadde han hans har hennes her hun hva hvem hver hvilken hvilke hvis hvor hvordan hvorfor i ikke ingen
    inn jeg kan kunne man mange med meg meget mellom men min mine mot mye noe noen nå når og også om opp oss over på seg
    selv siden sin sine sitt skal skulle slik som så til under ut uten var ved vi vil ville vår være vært""",
    "fi": """
    ei eikä eivät ennen että ette han hän häneen hänelle hänen hänet he heidän heille itse ja jo joiden joita joka jonka
    jos joskus jossa josta jotka jotta kaikki kanssa keitä ken kenen ketä koska kuin kuinka kuka kun kuitenkin me mihin
    mikä miksi mille millainen milloin minkä minun minä missä mistä mitä mitkä mukaan mutta myös ne niiden niin niitä noin
    nyt olen oli olivat olla olleet ollut on ovat saa se sekä sen siellä siinä siitä sillä silloin sinä sitä tai tämä
    tämän tässä tästä te tuo tuon vaan vai vain vielä voi""",
    "hu": """
    a abban ahhoz ahogy ahol aki akik akkor alatt amely amelyek ami amit arra át az azok azon azt aztán azzal be benne
    csak de e egy egyes együtt el elő először ennek én erre és ez ezek ezen ezt fel felé ha hanem hiszen hogy hogyan hol
    így illetve is itt ki kell képest között közül le lehet lesz lett maga majd már még meg mellett mely melyik mert mi
    miért mikor mint mit most nagyon nem ő ők ön össze pedig s saját se sem sok szerint szinte t tehát után utána vagy van
    vannak végül volt voltak""",
    "tr": """
    ama ancak artık aslında bana başka bazı belki ben benim beri bile bir biraz biri birkaç birçok biz bu buna bunda
    bundan bunlar bunu bunun burada çok çünkü da daha de defa değil diye dolayı eğer en gibi göre hangi hem hep her herkes
    hiç için ile ise işte kadar karşı ki kim kimin mı mi mu mü nasıl ne neden nerede nereye niçin niye o olan olarak oldu
    olduğu olduğunu olur ona onda ondan onlar onların onu onun oysa önce pek rağmen sadece sanki sen şey siz sonra şu
    şöyle tarafından tüm üzere var ve veya ya yani yok zaten""",
    "pl": """
    a aby ale ani bardzo bez bo być był była było były będzie by chociaż ci co czy dla do gdy gdzie go i ich ile im inne
    innych iż ja jak jako jaki jaka jakie je jednak jego jej jest jeszcze jeśli już każdy kiedy kto która które którego
    której którzy który których którym którą lub ma mają może mu my na nad nam nas nie nich nim niż o od on ona one oni
    ono oraz po pod podczas pomiędzy ponieważ przed przez przy również są się sobie swoje swój ta tak także tam te tego
    tej ten to tu ty tych tylko tym u w we wszystko z za ze że""",
    "cs": """
    a aby aj ale ani asi až bez bude budou by byl byla byli bylo být co což či dál do ho i já jak jako jaký jaká jaké je
    jeho jej její jejich jen ještě ji jí jim jiné již jsem jsme jsou jste k kam kde kdo kdy když ke která které kteří
    kterou který má mají mezi mi mít mně moc může my na nad nám nás ne nebo nebyl není než nic o od on ona oni ono pak po
    pod podle pokud pro proč proti protože před přes přeze při s se si své svůj svých ta tak také tam tato te tedy ten
    tento této ti tím to toho tom tomto tu tuto ty u už v vám vás ve více však všech vy z za ze že""",
    "sk": """
    a aby aj ak ako aká aké aký ale alebo ani áno asi až bez bola boli bolo bol bude budú by byť čo či do ešte ho i iba
    ich jeho jej je ju k kam každý kde kedy keď kto ktorá ktoré ktorí ktorý ktorých len lebo má majú medzi mi môže my na
    nad nám nás nie nič o od on ona oni ono po pod podľa pre preto prečo pred pri s sa si so sú svoj svoje ta tak takže
    tam ten tento tie to toho tom tomto tu tú ty už v vám vás však všetko vo vy z za zo že""",
    "hr": """
    a ako ali bi bila bili bilo bio biti će da do dok ga gdje i iako ih ili im iz ja je jer jedan jedna jedno još jesu joj
    ju kad kada kako kao koja koje koji kojih kojim kojoj koju ko li mi moj na nad nakon ne neki nego nekoliko nema ni
    nije nisu njega njegov njegova njih njihov njoj o od on ona oni ono ova ovaj ove ovo po pod pre prema pri prije s sa
    sam samo se si smo ste su sve svi svoj svoje svoju što šta ta tada taj tako te ti to tu u uz vam vas već više vrlo za
    zašto""",
    "sl": """
    a ali bi bil bila bile bili bilo biti bo bodo če da do dokler ga iz in ima imajo jaz je jih jim jo k kaj kako kakor
    kateri katera katere kdaj kdo ker ki kje ko kot le med mi mu na nad naj ne nekaj ni niso njegov njegova njen njih
    njihov o ob od on ona oni oziroma pa po pod pred pri prav s sam samo se sem si smo so svoj svoje ta tako tam te tem
    ter ti tisti to tudi tukaj v več ves vi vse za zakaj zaradi zelo že""",
    "lt": """
    apie ar arba aš bei bet bus būti būtų buvo dar daug dėl gali į iki ir iš ja jau jei ji jie jis jo jog jos jų kad kada
    kai kaip kas ką kiek kita kiti kitų ko kodėl koks kokia ku kur kuri kurie kuriame kurio kurios kuris kurių labai mano
    mes metu nei nes nors nuo o pagal per po prie prieš sau savo ši šio šios šis su ta tačiau tai taip tarp tas ten tie
    tik to tos tuo tų už yra""",
    "lv": """
    ar arī ārpus bet bez bija bijis bijusi būs būt caur cik dēļ ir ja jau jo jūs ka kā kad kādi kāda kāds kam kas kāpēc
    katrs kopā kur kura kuras kuri kurš kuru ko lai līdz mēs nav ne nebija nekā no nu pa par pārāk pat pēc pie pirms savu
    savas šajā šī šie šis šo tā tad tāda tādi taču tajā tam tas te tev tie tiek tika tikai to tomēr tu tur un uz vai
    vairāk var vēl viņa viņi viņš visi zem""",
    "et": """
    aga ainult ei ega ehk enne et ette ikka ise ja juba jooksul just ju ka kas keegi kelle kes kogu kohta kõik kui kuid
    kuidas kuigi kus kust läbi ma me mida miks mille millal milline millest mina mis mitte mu mul muu muud nad neid need
    nende ning nii nagu nüüd oli olid olla ole oleks on oma pärast sa saab seal see seda selle selles sellest siis siin
    sina su ta tal te tema teda üks üle väga vaid vastu veel või""",
    "eu": """
    al ala alde arabera arte asko baina baino bat batean batek baten batzuk bera beraz bere berriz bertan beste bezala bi
    da dago dela den dena dira diren dituen ditu du duela duen dut dute egin egiten egon ere eta ez gabe gainean gero gu
    guztiak haiek hain hala han hau hauek hemen hori horiek horrek hura izan izango izaten kontra nahi nola non noiz nor
    nork ondoren oso ordea orain ze zein zen zer zeren ziren zituen zuen zuten""",
    "ga": """
    a ach ag agus an ann aige air ar arna as atá b ba bhí bheith bhfuil cad cé chuig chun conas d dá dár de den do don dul
    é ea faoi fios fuair gach gan go gur í iad idir ina is isteach le leis linn má mar mé mo muid na ná nach nár ní níl
    níor nó nuair ó ón os roimh sa seo sé shin sí sin sna tá tar thar tú um""",
    "eo": """
    al ankaŭ antaŭ apud aŭ ĉar ĉe ĉi ĉiu ĉiuj ĉu da de dum ekster el eĉ en esti estas estis ĝi ĝia ĝis ili ilia iu iuj jam
    je jes ju kaj ke kia kial kie kiel kiam kio kiu kiuj kun kvankam la laŭ li lia mi mia multe ne nek ni nia nun nur ol
    oni per plej pli por post preter pri pro se sed sen si sia sub super sur ŝi ŝia tamen tial tie tiel tiam tio tiu tiuj
    tra tre tro unu vi via""",
    "id": """
    ada adalah agar akan aku anda antara apa apakah atas atau bagaimana bagi bahwa banyak beberapa belum berapa bila bisa
    boleh dalam dan dapat dari daripada dengan di dia harus hanya hingga ia ialah ini itu jika juga kalau kami kamu kapan
    karena ke kepada kita lagi lain lalu lebih maka mana masih mengapa mereka namun oleh pada para pernah pun saat saja
    sangat saya sebagai sebelum sebuah secara sedang sehingga sejak selama seorang seperti sering serta setelah setiap
    siapa suatu sudah supaya tapi telah tentang tersebut tetapi tidak untuk yaitu yang""",
    "vi": """
    bạn bao bị bởi các cái cả chỉ cho chúng có con cũng của cùng đã đang đây để đến đi điều do đó được gì giữa hay hơn khi
    không là lại lên lúc mà mình mỗi một nào này nên nếu ngay người nhiều như những nó nơi nữa ở phải qua ra rằng rất sao
    sau sẽ tại tất theo thế thì tôi trên trong trước từ và vẫn vào vậy về vì việc với vừa""",
    "sq": """
    a ai ajo ama ana apo as asaj ato atë atij aty të cila cilat cili cilin çdo çfarë deri do dhe duke e edhe është gjatë i
    ia ishin ishte iu ja janë je ju ka kam kanë këtë këto kjo kur ku kush ky më me midis mos mund në nëpër nga nuk nën një
    o para pas pasi për por prej pse që sa saj se si siç së sipas t tek tij tyre u unë""",
    "af": """
    aan al as by daar dat deur die dié dit een en gaan geen gesê haar had hê het hierdie hoe hulle hy in is jou kan kon
    maar meer met moet na nie nog nou of om ons onder ook oor op se sê sal sou sy te toe tot uit vir van verder vra waar
    was wat watter wie word""",
    "sw": """
    au baada bado bila cha gani hadi hapa hata hao hii hiyo hivi hizo huo huyo ila ili ingawa ipi jinsi juu kama kati
    katika kila kisha ku kutoka kuwa kwa kwamba kwenye la lakini lini mara mimi mpaka mwa na nani ndani ndiyo ni nini
    pamoja pia sana sasa si sisi tu ule vya wa wake wakati wala wangu wao wapi wengi wetu wewe wote ya yake yao yeye yote
    za zake zao""",
    "el": """
    α αλλά αν αντί από απ αυτά αυτές αυτή αυτής αυτό αυτοί αυτός αυτού αυτούς αυτών για γιατί δε δεν δηλαδή είμαι είναι
    είσαι είχαν είχε εγώ εκεί εκείνη εκείνο εκείνος εμείς ένα έναν ένας ενός ενώ επί επίσης εσύ έτσι έχει έχουν ή η ήταν
    ήδη θα ίδια ίδιο ίδιος και κάθε κάποιος κάποια κατά κι κάτι λοιπόν μα μας με μέσα μετά μέχρι μη μην μια μία μόνο μου
    μπορεί να νε ο οι όλα όλοι όμως όπως όπου όσο όσα όταν ότι ούτε όχι παρά περί πιο πολύ ποια ποιο ποιοι ποιος ποιον που
    πού πριν προς πώς πως σαν σας σε στα στη στην στης στις στο στον στους συ τα τη την της τι τις το τον του τους των
    τότε τόσο χωρίς ως ώστε""",
    "ru": """
    а без более больше будет будто бы был была были было быть в вам вас вдруг ведь во вот впрочем все всегда всего всех
    всю вы где да даже для до другой его ее ей ему если есть еще ж же за зачем здесь и из или им иногда их к как какая
    какие какой каких когда кого ко кто которая которого которой которые которых который которую куда ли лучше между меня
    мне много может можно мой моя мы на над надо наконец нас не него нее ней нельзя нет ни нибудь никогда ним них ничего
    но ну о об один он она они оно опять от перед по под после потом потому почему почти при про раз разве с сам свое
    своего своей свою свои себе себя сейчас со совсем так такой там тебя тем теперь то тогда того тоже только том тот тут
    ты у уж уже хотя чего чей чем через что чтоб чтобы чуть эта эти этих это этого этой этом этот эту я""",
    "uk": """
    а або адже але без би більше був була були було бути в вам вас весь вже ви від він вона вони воно все всі всіх где да
    де для до дуже ж же з за завжди зі із й його їй їм їх її і коли кого кожен крім куди лише ми може можна між мене мені
    на над нас наш не нею немає ні ніж ним них нього о один одна отже по під після при про проте саме свій свого своєї
    свої свою себе та так також такий там те тим ти тих то тобто того той тому тоді тільки у хоча хто це цей цього цьому
    ця ці цих чи чим чому що щоб як яка яке який якого якої які яких якщо я""",
    "be": """
    а або але без быў была былі было быць бы ва вам вас вельмі вы да дзе для ды ёй ёсць ж же жа за з зараз і іх ім ішоў
    каб калі каля каму кожны хто мы мае мне можа на нас над не ні ніколі нават пад пра пры пасля па паміж пакуль перад
    свой сваё сваю сябе та так такі таксама там тады тое той толькі ты тут у усе усё ужо ў ўжо ўсе хаця ці чым чаму што
    штосьці як яго яе якая якое які якія якіх ён яна яны яно я гэта гэтага гэтай гэты гэтыя""",
    "bg": """
    а ако ала без беше би бил била били било бъде бъдат в вас ваш ви вие всички все във върху ги го да дали до докато дори
    е един една едно ето за защо защото и из или им има имат й как каква какви какво какъв като когато кога което които
    кой който коя която къде към ли между ме ми много може му на над нас не него нея ни ние никога нито но о обаче около
    от освен отново още по под поради после преди през при с са само се сега си след със съм също та така такава такива
    там твърде те тези ти то това тогава този той толкова тя тук тъй у че чрез ще я""",
    "mk": """
    а ако ама без беа беше би биде бил била биле било ваш ве во врз ги го да дали дека до додека е една едно еден за зад
    зошто и или им има имаат ја јас каде како кај кога која кои кое кој кон ли ме меѓу ми многу може му на над не нас него
    неа ние ниту но ни низ ова овие овој од околу освен оваа оние пак по под покрај потоа пред при со само се сега сè сѐ
    си сме сум сте така таа тие тоа тогаш тој толку ту тука уште туку што ќе""",
    "sr": """
    а ако али би била били било био бити ће да до док га где и иако их или им из ја је јер један једна једно још јесу јој
    ју кад када како као која које који којих којим којој коју ко ли ми мој на над након не неки него неколико нема ни
    није нису њега његов његова њих њихов њој о од он она они оно ова овај ове ово по под пре према при с са сам само се
    си смо сте су све сви свој своје своју што шта та тада тај тако те ти то ту у уз вам вас већ више врло за зашто""",
    "ar": """
    أن إن أنّ إلى إلا أو أي أيضا أين الآن التي الذي الذين اللذان اللاتي أما أمام أنا أنت انه أنه أنها إنه إنها بعد بعض بل
    بن به بها بين بينما تحت تلك ثم جدا حتى حيث حين خلال دون ذلك سوف على عليه عليها عن عند عندما عنه غير فقد فقط في فيه
    فيها قبل قد كان كانت كانوا كل كم كما كيف لا لأن لدى لقد لكن لكل لم لماذا لن له لها لهم لو ليس ليست ما ماذا متى مثل مع
    مما من منذ منه منها نحن نحو هذا هذه هؤلاء هل هم هما هنا هناك هو هي و وقد ولا ولم وهو وهي يا يكون""",
    "fa": """
    آن آنان آنها آنجا از اگر اما او این اینجا ایشان با باید بار بدون بر برای برخی بسیار بعد بلکه بود بودن بودند به بی بین
    پس پیش تا تر ترین تو توسط جز چرا چه چگونه چند چون چیست حتی خود خواهد خیلی در درباره دیگر را روی زیر زیرا سپس شد شده
    شدند شما شود شوند طی علیه کجا کدام کرد کرده کردند کنار کند کنند کنید که کی گرفت گفت ما مانند مثل من می میان نه نیز
    نیست ها های هر هم همان همه همین هنگام هنوز هیچ و ولی وی یا یک یکی است هست هستند داد دارد دارند داشت داشته داشتند""",
    "ur": """
    آپ اب اپنا اپنی اپنے اس اسی ان انہوں انہیں اور ایک اگر بھی بہت بعد پر پھر پہلے تک تھا تھی تھے تو جب جس جن جو جہاں جا
    حالانکہ خود دیا ساتھ سب سے صرف طرح کا کب کر کرتا کرتے کرنا کرنے کس کسی کہ کہا کہاں کو کون کوئی کی کیا کیسے کیوں کے گا
    گئی گئے گی گے گیا لیکن لیے مگر میں نہ نہیں نے وہ وہاں ہر ہم ہو ہوا ہوئی ہوئے ہوتا ہوتی ہوتے ہوں ہی ہیں ہے یا یہ یہاں
    یعنی""",
    "he": """
    אבל או אותו אותה אותם אחר אחרי אחת אך אל אלא אלה אלו אם אנחנו אני אף אשר את אתה אתם בו בה בהם בין בלי במקום בעוד גם
    דרך הוא היא היה היו היתה הייתה הם הן הנה זאת זה זו זהו יש כאשר כבר כדי כי כך כל כן כמו כמה כאן לא לאחר לה להם לו לי
    למה למי לפני לפי מאוד מאז מדוע מה מי מן מתי ממנו נגד עד עוד על עם עצמו פי רק של שלא שלו שלה שלהם שם תוך תחת איזה איזו
    איך איפה היכן לכן מתחת""",
    "yi": """
    און אויף אויך אויב אונטער אונדז אים אין איז איר איך א אַ אָבער אדער אָדער אן אַן ביז ביי בײַ דאָס דאס דאַן דער די דעם
    דו דורך ער עס פון פֿון פאר פֿאַר צו צווישן האָט האט האָבן האבן וואָס וואס ווען וועט ווי ווייל ווער וועלכע וואו געווען
    זי זיי זיינען זענען זיך זײַן זיין מיט מען מיר נאָך נאך ניט נישט נאָר נאר קען שוין""",
    "hi": """
    अगर अत अपना अपनी अपने अब अभी आदि आप इन इनका इनके इस इसका इसकी इसके इसमें इसलिए इसी इसे उन उनका उनकी उनके उन्हें
    उन्होंने उस उसका उसकी उसके उसने उसे उसी एक एवं ऐसा ऐसे ओर और कई कब कभी कर करता करते करना करने करें कहा कहाँ कहां का
    किया किस किसका किसकी किसने किसी किसे की कुछ के को कोई कौन कौनसा क्या क्यों गई गए गया चाहिए जब जहाँ जहां जा जाता जाती
    जाते जिस जिसका जिसकी जिसके जिसमें जिसे जिन जैसा जैसे जो तक तथा तब तो था थी थीं थे दिया दी द्वारा न नहीं ना ने पर परंतु
    पहले फिर बहुत बाद भी मगर में मैं यदि यह यहाँ यहां यही या ये रहा रही रहे लिए लेकिन व वह वहाँ वहां वही वाला वाली वाले वे
    सब सभी साथ से हम ही हुआ हुई हुए है हैं हो होता होती होते होना होने""",
    "mr": """
    अशा असा अशी असे असून असलेल्या आणि आता आपल्या आपण आम्ही आहे आहेत इतर एक एका कधी करून करण्यात का काही कारण किंवा की कुठे
    केला केली केले कोण कोणती कोणते खूप गेला गेली गेले च जर जी जे जेव्हा जो झाला झाली झाले तर तरी ती ते तेव्हा तो त्या
    त्यांच्या त्यांना त्यांनी त्याचा त्याची त्याचे त्याच्या त्याला त्याने तसेच तुम्ही नव्हते नाही नाहीत पण परंतु म्हणून
    म्हणजे मात्र मध्ये मी या यांच्या यांनी याची याचा येथे व वर सर्व सह साठी सुद्धा ही हा हे होता होती होते होतो""",
    "ne": """
    अझ अथवा अनि अनुसार अब अरू आदि आफ्नो आफू उनको उनका उनले उनी ऊ एउटा एक कति कसरी कसले कहाँ कहिले का कारण कि किन किनभने
    कुन कुनै के को कोही गरी गरेको गरेका गर्न गर्ने गर्छ गर्दै छ छन् छैन जब जसले जस्तो जहाँ जुन जो त तथा तर त्यस त्यसको
    त्यो त्यहाँ थियो थिए दिए दिएको देखि न नै पछि पनि पर्छ बाट भएको भएका भन्ने भने भयो भित्र म मात्र मा माथि यदि यस यसको
    यसले यी यो यहाँ र रहेको रहेका लाई लागि ले वा सँग सबै साथ साथै सो हरू हामी हुन् हुने हुन्छ हो होइन""",
    "ta": """
    அங்கு அதன் அது அதில் அதை அந்த அந்தப் அவர் அவர்கள் அவன் அவள் அல்லது ஆகிய ஆகும் ஆனால் இங்கு இதன் இது இதில் இதை இந்த
    இந்தப் இருந்த இருந்து இருக்கும் இல்லை இவர் இவை உள்ள உள்ளது என என்ற என்று என்ன எனவே எந்த எப்படி எப்போது எங்கு ஏன் ஒரு
    ஓர் கொண்ட கொண்டு சில தன் தான் தொடர்ந்து நான் நாம் நீ பல பற்றி பிற பின் பின்னர் போது போன்ற மட்டும் மற்றும் மிக மீது
    மூலம் மேலும் யார் வரை வேண்டும் வேறு""",
    "hy": """
    այդ այլ այն այս այստեղ ապա առ առանց բայց բոլոր դա դեպի դու դուք եթե եմ են ենք ես եք է էի էին էր ըստ թե թեև ի ին իսկ իր
    իրեն իրենց կամ կա կարող հանդեպ հետ հետո համար մեկ մեջ մեր մի միայն մինչ մինչև մոտ մենք նա նաև նրա նրան նրանց նրանք ոչ
    ով որ որը որի որոնք որոնց որպես որտեղ ու ում չէ չի պետք սա վրա տակ ինչ ինչպես ինչու երբ և""",
    "st": """
    a ba bao bane bo bona ditse e empa ena ene fela feela ha haeba hae hape hle ho hore ka ke kgotsa ko kamoo kapa le leha
    lena leo li ma me mme mo mona moo na ne ngata o on re sa sona se seo tla tse tsa tsena tseo wa ya yena yona yeo""",
    "is": """
    að af allir alls annar á án áður bara eða ef eftir eins einn ekki ég ein en enda er eru fyrir frá fram fékk gegn ha
    hafa hafði hann hans hefur hennar henni hér hjá honum hún hvað hvar hvenær hver hverjir hvernig hvers hvort í inn ja
    kom kemur með meðan meira mér mig minn mun nei né nema nú og okkar okkur sem sér sig sinn sína sínum síðan skal svo
    til um undir upp úr var vegna vera verið verða við voru yfir það þá þann þar þau þegar þeim þeir þeirra þess þessi
    þessu þetta því þó þú""",
    "la": """
    a ab ac ad aliquis an ante apud at atque aut autem cum cur de dum ego eius enim eo ergo erat erant est et etiam ex
    fuit haec hic his hoc iam id igitur ille illa in inter ipse is ita me mihi modo nam ne nec neque nihil non nos nunc ob
    omnia per post pro quae quam quando quem qui quia quibus quid quidem quis quo quod quoque se sed si sibi sic sicut
    sine sub sum sunt tam tamen te tibi tu tum ubi ut vel vero""",
}
